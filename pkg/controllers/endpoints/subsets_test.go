package endpoints

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/services/subsets"
)

// Pins EP-31a.
func TestAddressOfAPod(t *testing.T) {
	pod := testPod(1, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "h", "web" })
	got := subsetsOf(testService(func(s *corev1.Service) { s.Spec.Ports[0].AppProtocol = ptr.To("grpc") }), []*corev1.Pod{pod})
	want := []corev1.EndpointSubset{{
		Addresses: []corev1.EndpointAddress{{
			IP: "10.1.0.2", Hostname: "h", NodeName: ptr.To("node-a"),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "n", Name: "web-1", UID: "pod-1"},
		}},
		Ports: []corev1.EndpointPort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP, AppProtocol: ptr.To("grpc")}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for name, change := range map[string]func(*corev1.Pod){
		"no hostname":   func(p *corev1.Pod) { p.Spec.Subdomain = "web" },
		"no subdomain":  func(p *corev1.Pod) { p.Spec.Hostname = "h" },
		"other Service": func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "h", "other" },
	} {
		got := subsetsOf(testService(), []*corev1.Pod{testPod(1, change)})
		if hostname := got[0].Addresses[0].Hostname; hostname != "" {
			t.Errorf("%s: hostname is %q", name, hostname)
		}
	}
}

// Pins EP-30 and EP-32a.
func TestPodsThatAreListed(t *testing.T) {
	terminating := func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }
	publishing := func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }
	plain := func(*corev1.Service) {}
	const ready, unready = "[http:8080/TCP] [web-1] []", "[http:8080/TCP] [] [web-1]"
	for name, tc := range map[string]struct {
		service func(*corev1.Service)
		pod     func(*corev1.Pod)
		want    string
	}{
		"ready":                                  {plain, func(*corev1.Pod) {}, ready},
		"not ready":                              {plain, notReady, unready},
		"without conditions":                     {plain, func(p *corev1.Pod) { p.Status.Conditions = nil }, unready},
		"not ready, published":                   {publishing, notReady, ready},
		"EP-51: terminating":                     {plain, terminating, ""},
		"terminating, published":                 {publishing, terminating, ready},
		"succeeded":                              {plain, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, ""},
		"failed":                                 {plain, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, ""},
		"failed, published":                      {publishing, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, ""},
		"without IP":                             {plain, func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "", nil }, ""},
		"without list of IPs":                    {plain, func(p *corev1.Pod) { p.Status.PodIPs = nil }, ""},
		"only with a list of IPs":                {plain, func(p *corev1.Pod) { p.Status.PodIP = "" }, ready},
		"with an IP that is none":                {plain, func(p *corev1.Pod) { p.Status.PodIPs[0].IP = "nonsense" }, ""},
		"EP-31, EP-49: of the other family only": {plain, func(p *corev1.Pod) { p.Status.PodIPs[0].IP = "fd00::1" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var want []string
			if tc.want != "" {
				want = []string{tc.want}
			}
			got := addresses(subsetsOf(testService(tc.service), []*corev1.Pod{testPod(1, tc.pod)}))
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// Pins EP-31.
func TestFamilyThatIsPublished(t *testing.T) {
	families := func(list ...corev1.IPFamily) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.IPFamilies = list }
	}
	clusterIP := func(ip string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.IPFamilies, s.Spec.ClusterIP = nil, ip }
	}
	for name, tc := range map[string]struct {
		service func(*corev1.Service)
		podIP   string
		podIPs  []string
		want    string
	}{
		"first of the Service":     {families(corev1.IPv6Protocol, corev1.IPv4Protocol), "10.0.0.1", []string{"10.0.0.1", "fd00::1"}, "fd00::1"},
		"IPv4 Service":             {families(corev1.IPv4Protocol), "fd00::1", []string{"fd00::1", "10.0.0.1", "10.0.0.2"}, "10.0.0.1"},
		"from an IPv6 cluster IP":  {clusterIP("fd00:10::1"), "10.0.0.1", []string{"10.0.0.1", "fd00::1"}, "fd00::1"},
		"from an IPv4 cluster IP":  {clusterIP("10.9.9.9"), "fd00::1", []string{"fd00::1", "10.0.0.1"}, "10.0.0.1"},
		"headless, IPv6 pod":       {clusterIP("None"), "fd00::1", []string{"fd00::1", "10.0.0.1"}, "fd00::1"},
		"headless, IPv4 pod":       {clusterIP("None"), "10.0.0.1", []string{"10.0.0.1", "fd00::1"}, "10.0.0.1"},
		"no cluster IP, no pod IP": {clusterIP(""), "", []string{"fd00::1", "10.0.0.1"}, "10.0.0.1"},
		"leading zeros":            {families(corev1.IPv4Protocol), "010.000.000.001", []string{"010.000.000.001"}, "10.0.0.1"},
		"long form":                {families(corev1.IPv6Protocol), "fd00:0:0:0::0001", []string{"fd00:0:0:0::0001"}, "fd00::1"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testPod(1, func(p *corev1.Pod) {
				p.Status.PodIP, p.Status.PodIPs = tc.podIP, nil
				for _, ip := range tc.podIPs {
					p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
				}
			})
			got := subsetsOf(testService(tc.service), []*corev1.Pod{pod})
			if len(got) != 1 || got[0].Addresses[0].IP != tc.want {
				t.Errorf("got %+v, want %s", got, tc.want)
			}
		})
	}
}

// Pins EP-32.
func TestPortsOfPods(t *testing.T) {
	container := func(name string, number int32, protocol corev1.Protocol, restart *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{RestartPolicy: restart, Ports: []corev1.ContainerPort{{Name: name, ContainerPort: number, Protocol: protocol}}}
	}
	always := ptr.To(corev1.ContainerRestartPolicyAlways)
	pods := []*corev1.Pod{
		testPod(1, func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{container("web", 81, corev1.ProtocolTCP, nil), container("web", 82, corev1.ProtocolUDP, nil)}
		}),
		testPod(2, func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{container("web", 70, corev1.ProtocolTCP, nil), container("web", 83, corev1.ProtocolTCP, always)}
		}),
		testPod(3),
	}
	ports := func(list ...corev1.ServicePort) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Ports = list }
	}
	named := corev1.ServicePort{Name: "n", Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("web")}
	number := corev1.ServicePort{Name: "i", Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(90)}
	for name, tc := range map[string]struct {
		service func(*corev1.Service)
		want    []string
	}{
		"number":           {ports(number), []string{"[i:90/TCP] [web-1 web-2 web-3] []"}},
		"name":             {ports(named), []string{"[n:81/TCP] [web-1] []", "[n:83/TCP] [web-2] []"}},
		"name and number":  {ports(named, number), []string{"[i:90/TCP] [web-1 web-2 web-3] []", "[n:81/TCP] [web-1] []", "[n:83/TCP] [web-2] []"}},
		"name nobody has":  {ports(corev1.ServicePort{Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("x")}), nil},
		"no ports":         {ports(), nil},
		"no ports, no IP":  {func(s *corev1.Service) { s.Spec.Ports, s.Spec.ClusterIP = nil, "" }, nil},
		"headless":         {func(s *corev1.Service) { s.Spec.Ports, s.Spec.ClusterIP = nil, "None" }, []string{"[] [web-1 web-2 web-3] []"}},
		"headless, a port": {func(s *corev1.Service) { s.Spec.ClusterIP = "None" }, []string{"[http:8080/TCP] [web-1 web-2 web-3] []"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := addresses(subsets.Repack(subsetsOf(testService(tc.service), pods)))
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}
