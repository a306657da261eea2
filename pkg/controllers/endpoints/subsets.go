package endpoints

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/endpointslice"
	"k8s.io/endpointslice/util"
	netutils "k8s.io/utils/net"
)

// subsetsOf returns what the pods contribute to the Endpoints of a Service, one address and
// at most one port in each subset.
func subsetsOf(service *corev1.Service, pods []*corev1.Pod) []corev1.EndpointSubset {
	var subsets []corev1.EndpointSubset
	for _, pod := range pods {
		if !util.ShouldPodBeInEndpoints(pod, service.Spec.PublishNotReadyAddresses) {
			continue
		}
		if address, ok := addressOf(service, pod); ok {
			subsets = appendSubsets(subsets, service, pod, address)
		}
	}
	return subsets
}

func appendSubsets(
	subsets []corev1.EndpointSubset, service *corev1.Service, pod *corev1.Pod, address corev1.EndpointAddress,
) []corev1.EndpointSubset {
	ready := service.Spec.PublishNotReadyAddresses || util.IsPodReady(pod)
	if len(service.Spec.Ports) == 0 {
		// Only names of pods can be looked up in a Service without ports.
		if service.Spec.ClusterIP != corev1.ClusterIPNone {
			return subsets
		}
		return append(subsets, subsetOf(address, ready, nil))
	}
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		// The only error is that the pod has no port of the name.
		number, err := endpointslice.FindPort(pod, port)
		if err != nil {
			continue
		}
		subsets = append(subsets, subsetOf(address, ready, []corev1.EndpointPort{{
			Name:        port.Name,
			Port:        int32(number),
			Protocol:    port.Protocol,
			AppProtocol: port.AppProtocol,
		}}))
	}
	return subsets
}

func subsetOf(address corev1.EndpointAddress, ready bool, ports []corev1.EndpointPort) corev1.EndpointSubset {
	if ready {
		return corev1.EndpointSubset{Addresses: []corev1.EndpointAddress{address}, Ports: ports}
	}
	return corev1.EndpointSubset{NotReadyAddresses: []corev1.EndpointAddress{address}, Ports: ports}
}

// addressOf returns the address of a pod in the family that the Service publishes, false if
// the pod has none of that family.
func addressOf(service *corev1.Service, pod *corev1.Pod) (corev1.EndpointAddress, bool) {
	ip, ok := ipOf(pod, familyOf(service, pod))
	if !ok {
		return corev1.EndpointAddress{}, false
	}
	address := corev1.EndpointAddress{
		IP:       ip,
		NodeName: &pod.Spec.NodeName,
		TargetRef: &corev1.ObjectReference{
			Kind:      "Pod",
			Namespace: pod.Namespace,
			Name:      pod.Name,
			UID:       pod.UID,
		},
	}
	if util.ShouldSetHostname(pod, service) {
		address.Hostname = pod.Spec.Hostname
	}
	return address, true
}

// familyOf returns the one family that is published: the first of the Service, or if it has
// not been given any, that of its cluster IP, or without one that of the pod.
func familyOf(service *corev1.Service, pod *corev1.Pod) corev1.IPFamily {
	ip := pod.Status.PodIP
	switch clusterIP := service.Spec.ClusterIP; {
	case len(service.Spec.IPFamilies) > 0:
		return service.Spec.IPFamilies[0]
	case clusterIP != "" && clusterIP != corev1.ClusterIPNone:
		ip = clusterIP
	}
	if netutils.IsIPv6String(ip) {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// ipOf returns the first IP of a family that a pod has, in canonical form. IPs of old
// kubelets may have leading zeros.
func ipOf(pod *corev1.Pod, family corev1.IPFamily) (string, bool) {
	for i := range pod.Status.PodIPs {
		ip := netutils.ParseIPSloppy(pod.Status.PodIPs[i].IP)
		if ip != nil && netutils.IsIPv6(ip) == (family == corev1.IPv6Protocol) {
			return ip.String(), true
		}
	}
	return "", false
}
