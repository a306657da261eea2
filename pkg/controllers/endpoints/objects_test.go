package endpoints

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/test/controllertest"
)

var created = controllertest.ServiceCreated

func testService(changes ...func(*corev1.Service)) *corev1.Service {
	return controllertest.Service("n", "web", changes...)
}

func testPod(i int, changes ...func(*corev1.Pod)) *corev1.Pod {
	return controllertest.Backend("n", "web", i, changes...)
}

func notReady(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

// testEndpoints are what the controller makes of the Service and these pods.
func testEndpoints(pods []*corev1.Pod, change ...func(*corev1.Endpoints)) *corev1.Endpoints {
	endpoints := newContents(testService(), pods).applied(nil, created)
	endpoints.ResourceVersion, endpoints.UID = "1", "endpoints"
	endpoints = endpoints.DeepCopy()
	for _, c := range change {
		c(endpoints)
	}
	return endpoints
}

// addresses shows subsets as "ready not-ready" lists of pods with the ports they have.
func addresses(subsets []corev1.EndpointSubset) (lines []string) {
	names := func(list []corev1.EndpointAddress) (all []string) {
		for _, a := range list {
			all = append(all, a.TargetRef.Name)
		}
		return all
	}
	for _, s := range subsets {
		var ports []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprintf("%s:%d/%s", p.Name, p.Port, p.Protocol))
		}
		lines = append(lines, fmt.Sprint(ports, " ", names(s.Addresses), " ", names(s.NotReadyAddresses)))
	}
	return lines
}
