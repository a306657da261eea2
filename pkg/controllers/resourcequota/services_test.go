package resourcequota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// service makes a Service of a type, with ports that have these node ports.
func service(kind corev1.ServiceType, nodePorts ...int32) *corev1.Service {
	s := &corev1.Service{Spec: corev1.ServiceSpec{Type: kind}}
	s.Namespace, s.Name, s.UID = "ns", "service", "service"
	for _, port := range nodePorts {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{NodePort: port})
	}
	return s
}

func allocating(s *corev1.Service, allocate bool) *corev1.Service {
	s.Spec.AllocateLoadBalancerNodePorts = ptr.To(allocate)
	return s
}

// Pins QUOTA-55.
func TestServiceUsage(t *testing.T) {
	const plain = "count/services=1 services=1 "
	for name, test := range map[string]struct {
		service *corev1.Service
		want    string
	}{
		"of the cluster":                        {service("ClusterIP", 0, 0), plain + "services.nodeports=0 services.loadbalancers=0"},
		"without a type":                        {service(""), plain + "services.nodeports=0 services.loadbalancers=0"},
		"with node ports":                       {service("NodePort", 30000, 0), plain + "services.nodeports=2 services.loadbalancers=0"},
		"load balanced":                         {service("LoadBalancer", 0, 0), plain + "services.nodeports=2 services.loadbalancers=1"},
		"load balanced, with ports that are to": {allocating(service("LoadBalancer", 0, 0), true), plain + "services.nodeports=2 services.loadbalancers=1"},
		"load balanced, without node ports":     {allocating(service("LoadBalancer", 0, 30000), false), plain + "services.nodeports=1 services.loadbalancers=1"},
		"elsewhere":                             {service("ExternalName"), plain + "services.nodeports=0 services.loadbalancers=0"},
	} {
		t.Run(name, func(t *testing.T) { wantList(t, serviceUsage(test.service), test.want) })
	}
	for name, want := range map[corev1.ResourceName]bool{
		"count/services": true, "services": true, "services.nodeports": true, "services.loadbalancers": true,
		"services.externalnames": false, "pods": false,
	} {
		if got := limitsService(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// Pins QUOTA-14, QUOTA-106.
func TestReleasesService(t *testing.T) {
	for name, test := range map[string]struct {
		old, new *corev1.Service
		want     bool
	}{
		"a load balancer less":                   {service("LoadBalancer"), service("NodePort"), true},
		"node ports less":                        {service("NodePort", 1), service("ClusterIP", 1), true},
		"a load balancer more":                   {service("ClusterIP"), service("LoadBalancer"), true},
		"ports less":                             {service("NodePort", 1, 2), service("NodePort", 1), true},
		"other ports":                            {service("NodePort", 1), service("NodePort", 2), false},
		"ports less inside of the cluster":       {service("ClusterIP", 1, 2), service("ClusterIP", 1), false},
		"types between which quotas do not tell": {service("ClusterIP"), service("ExternalName"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := releasesService(test.old, test.new); got != test.want {
				t.Errorf("releases is %v, want %v", got, test.want)
			}
		})
	}
}
