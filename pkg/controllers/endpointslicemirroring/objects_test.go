package endpointslicemirroring

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

func testService(selector map[string]string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web"}, Spec: corev1.ServiceSpec{Selector: selector}}
}

func subset(port int32, ready, notReady []string) corev1.EndpointSubset {
	list := func(ips []string) (all []corev1.EndpointAddress) {
		for _, ip := range ips {
			all = append(all, corev1.EndpointAddress{IP: ip})
		}
		return all
	}
	s := corev1.EndpointSubset{Addresses: list(ready), NotReadyAddresses: list(notReady)}
	if port > 0 {
		s.Ports = []corev1.EndpointPort{{Name: "p", Port: port, Protocol: corev1.ProtocolTCP}}
	}
	return s
}

func testEndpoints(subsets ...corev1.EndpointSubset) *corev1.Endpoints {
	return &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web", UID: "endpoints", Labels: map[string]string{"team": "a"}},
		Subsets:    subsets,
	}
}

// oneAddress are Endpoints with an address and a port.
func oneAddress(change ...func(*corev1.Endpoints)) *corev1.Endpoints {
	e := testEndpoints(subset(80, []string{"10.0.0.1"}, nil))
	return controllertest.Changed(e, change...)
}

// sliceOf is the first slice that is made of Endpoints, with a name.
func sliceOf(name string, endpoints *corev1.Endpoints, change ...func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	groups, _ := desiredGroups(endpoints, 1000)
	slice := newSlice(endpoints, groups[0]).DeepCopy()
	slice.Name, slice.GenerateName, slice.UID, slice.Generation, slice.ResourceVersion = name, "", types.UID(name), 1, "1"
	return controllertest.Changed(slice, change...)
}

// sliceText is "type ports: addresses", with those that are not ready in brackets.
func sliceText(addressType discoveryv1.AddressType, ports []discoveryv1.EndpointPort, endpoints []discoveryv1.Endpoint) string {
	var numbers, ips []string
	for _, p := range ports {
		numbers = append(numbers, fmt.Sprint(*p.Port))
	}
	for _, e := range endpoints {
		ip := strings.Join(e.Addresses, ",")
		if !ptr.Deref(e.Conditions.Ready, false) {
			ip = "(" + ip + ")"
		}
		ips = append(ips, ip)
	}
	slices.Sort(numbers)
	slices.Sort(ips)
	return fmt.Sprintf("%s %s: %s", addressType, strings.Join(numbers, ","), strings.Join(ips, " "))
}

func sliceTexts(all []*discoveryv1.EndpointSlice) (texts []string) {
	for _, s := range all {
		texts = append(texts, sliceText(s.AddressType, s.Ports, s.Endpoints))
	}
	slices.SortFunc(texts, cmp.Compare[string])
	return texts
}
