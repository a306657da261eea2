package resourcequota

import corev1 "k8s.io/api/core/v1"

// limitsService reports whether a quota of that name limits Services.
func limitsService(name corev1.ResourceName) bool {
	switch name {
	case "count/services", corev1.ResourceServices, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	}
	return false
}

// serviceUsage returns what a Service uses.
func serviceUsage(service *corev1.Service) corev1.ResourceList {
	used := corev1.ResourceList{
		"count/services":                     one,
		corev1.ResourceServices:              one,
		corev1.ResourceServicesNodePorts:     number(nodePorts(service)),
		corev1.ResourceServicesLoadBalancers: number(0),
	}
	if service.Spec.Type == corev1.ServiceTypeLoadBalancer {
		used[corev1.ResourceServicesLoadBalancers] = one
	}
	return used
}

// nodePorts returns the number of ports that a Service occupies on each node.
func nodePorts(service *corev1.Service) int64 {
	switch service.Spec.Type {
	case corev1.ServiceTypeNodePort:
		return int64(len(service.Spec.Ports))
	case corev1.ServiceTypeLoadBalancer:
		if allocate := service.Spec.AllocateLoadBalancerNodePorts; allocate == nil || *allocate {
			return int64(len(service.Spec.Ports))
		}
		var ports int64
		for _, port := range service.Spec.Ports {
			if port.NodePort != 0 {
				ports++
			}
		}
		return ports
	}
	return 0
}

// releasesService reports whether after an update of a Service a quota may have room again. Admission never lowers usage,
// so any change of it counts.
func releasesService(old, new *corev1.Service) bool {
	return !same(serviceUsage(old), serviceUsage(new))
}
