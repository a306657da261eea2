package endpointslice

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/services/podchanges"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with Services and their pods. If it is steady, the Service a, the node n0 and the pods s0 and s1,
// which are ready, stay, and nobody else touches slices.
type model struct {
	simulation.Backends
	t      *testing.T
	c      *endpointSliceController
	config config
	steady bool
	moved  bool // the ports of the Service a were changed
	served bool // s0 and s1 were in its slices
}

// TestWhateverHappensTheSlicesHoldThePods has pods come and go, Services, nodes and slices edited, requests fail and
// the controller restarted, while the caches are behind or incomplete.
func TestWhateverHappensTheSlicesHoldThePods(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{Backends: simulation.Backends{World: w}, t: t}).run()
	})
}

func (m *model) run() {
	m.config = config{concurrentSyncs: 1, maxEndpoints: int32(1 + m.Rand.IntN(3)), preferSame: true}
	m.config.batchPeriod = time.Duration(m.Rand.IntN(2)) * time.Second
	m.steady = m.OneIn(2)
	m.Backends.Shape, m.Backends.Spared = m.shape, m.spared
	m.World.Start = m.start
	if m.steady {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
		m.Random(service)
		service.Spec.Selector = map[string]string{"app": "x"}
		service.Spec.Type, service.Spec.IPFamilies = "", []corev1.IPFamily{corev1.IPv4Protocol}
		m.Create(service)
	}
	m.Populate()
	if m.steady {
		m.Backends.Run(m.Pod("s0", "x"), "n0")
		m.Backends.Run(m.Pod("s1", "x"), "n0")
	}
	if m.MayBeLossy(2); m.steady && m.Lossy != nil {
		m.Lossy = func(o runtime.Object) bool { // a pod that a list lacks is not served
			_, isNode := o.(*corev1.Node)
			return isNode
		}
	}
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Hasty = []int{0, 0, 5}[m.Rand.IntN(3)]
	m.Play(func() { m.others(false) }, m.users)
	m.Settle(2*time.Minute, func() bool { return m.others(true) })
	m.check()
}

func (m *model) start(env controller.Env, left any) simulation.Instance {
	if left == nil && m.steady {
		m.DropLate() // nobody knows of what an instance that was killed has sent
	}
	c := assemble(env, m.config)
	services := simulation.NewQueue(m.World, func(ctx context.Context, key types.NamespacedName) error {
		err := c.reconcile(ctx, key)
		m.checkSteady(key, err)
		return err
	})
	changes := simulation.NewQueue(m.World, c.reconcilePodChange)
	topology := simulation.NewQueue(m.World, c.reconcileTopology)
	c.serviceQueue, c.podQueue, c.topologyQueue = services, changes, topology
	c.watch()
	m.SyncHandlers()
	must.Succeed(m.t, c.begin(m.Context()))
	m.c = c
	return simulation.Instance{
		Runners:  []simulation.Runner{services, changes, topology},
		HandOver: func() any { return c.HandOver() },
	}
}

func (m *model) others(all bool) bool {
	did := m.CollectGarbage()
	return m.Act(all) || did
}

func (m *model) users() {
	if !m.steady && m.OneIn(2) {
		m.TamperWithSlices()
		return
	}
	m.User()
}

func (m *model) spared(o metav1.Object) bool {
	return m.steady && slices.Contains([]string{"a", "n0", "s0", "s1"}, o.GetName())
}

// shape leaves the selector and the families of the Service a as they are if it is steady.
func (m *model) shape(s *corev1.Service) {
	switch {
	case !m.steady || s.Name != "a":
		m.Random(s)
	case m.OneIn(3):
		m.moved = true
		m.Ports(s)
	default:
		m.Describe(s)
	}
}

// checkSteady checks that the steady pods stay in the slices of the Service a. While its ports change, a reconcile that
// fails can leave them out until the next one.
func (m *model) checkSteady(key types.NamespacedName, err error) {
	if !m.steady || key.Name != "a" || err != nil && m.moved {
		return
	}
	held := ""
	for _, slice := range simulation.All[*discoveryv1.EndpointSlice](m.World) {
		for _, e := range slice.Endpoints {
			if slice.Labels[discoveryv1.LabelServiceName] == "a" && *e.Conditions.Ready {
				held += e.TargetRef.Name + " "
			}
		}
	}
	both := strings.Contains(held, "s0") && strings.Contains(held, "s1")
	if m.served && !both {
		m.t.Errorf("steady pods are missing, there are: %s", held)
	}
	m.served = m.served || both
}

func (m *model) check() {
	served := map[string][]string{} // what the slices of a Service hold, one endpoint per line
	families := map[string]bool{}   // of which a Service has slices, if only one that holds nothing
	for _, slice := range simulation.All[*discoveryv1.EndpointSlice](m.World) {
		owner := metav1.GetControllerOf(slice)
		service, ok := simulation.Get[*corev1.Service](m.World, "ns", owner.Name)
		if (!ok || service.UID != owner.UID) && slice.DeletionTimestamp == nil {
			m.t.Errorf("slice %s of a Service that is gone stays", slice.Name)
		}
		if slice.Labels[discoveryv1.LabelManagedBy] != managedBy || slice.DeletionTimestamp != nil {
			continue
		}
		if len(slice.Endpoints) > int(m.config.maxEndpoints) {
			m.t.Errorf("slice %s has %d endpoints", slice.Name, len(slice.Endpoints))
		}
		name := slice.Labels[discoveryv1.LabelServiceName]
		service, ok = simulation.Get[*corev1.Service](m.World, "ns", name)
		if !ok || !podchanges.Selects(service) {
			continue
		}
		// The library takes an empty slice for the placeholder of a Service, whoever owns it.
		if service.Name != owner.Name && len(slice.Endpoints) > 0 || slice.Labels["team"] != service.Labels["team"] {
			m.t.Errorf("slice %s of Service %s has owner %s, labels %v", slice.Name, name, owner.Name, slice.Labels)
		}
		families[name+string(slice.AddressType)] = true
		for _, e := range slice.Endpoints {
			served[name] = append(served[name], fmt.Sprint(slice.AddressType, portsText(slice.Ports), endpointText(e)))
		}
	}
	for _, service := range simulation.All[*corev1.Service](m.World) {
		if !podchanges.Selects(service) {
			continue
		}
		for _, family := range service.Spec.IPFamilies {
			if !families[service.Name+string(family)] {
				m.t.Errorf("Service %s has no slice of %s", service.Name, family)
			}
		}
		got, want := served[service.Name], m.desired(service)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			m.t.Errorf("Service %s, ports %v\ngot\n%s\nwant\n%s", service.Name, service.Spec.Ports,
				strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// desired returns what the slices of a Service are to hold, one endpoint per line.
func (m *model) desired(s *corev1.Service) (all []string) {
	for _, family := range s.Spec.IPFamilies {
		for _, pod := range simulation.All[*corev1.Pod](m.World) {
			node, hasNode := simulation.Get[*corev1.Node](m.World, "", pod.Spec.NodeName)
			at := slices.IndexFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool {
				return strings.Contains(ip.IP, ":") == (family == corev1.IPv6Protocol)
			})
			isIn := pod.Labels["app"] == s.Spec.Selector["app"] && !pods.IsTerminal(pod) && at >= 0
			if !isIn || !hasNode && !s.Spec.PublishNotReadyAddresses {
				continue
			}
			isEnding := pod.DeletionTimestamp != nil
			isReady := s.Spec.PublishNotReadyAddresses || pods.IsReady(pod) && !isEnding
			e := discoveryv1.Endpoint{
				Addresses: []string{pod.Status.PodIPs[at].IP}, NodeName: &pod.Spec.NodeName,
				Conditions: discoveryv1.EndpointConditions{
					Ready: &isReady, Serving: ptr.To(pods.IsReady(pod)), Terminating: &isEnding,
				},
				TargetRef: &corev1.ObjectReference{Name: pod.Name, UID: pod.UID},
			}
			if hasNode && zoneOf(node) != "" {
				e.Zone = ptr.To(zoneOf(node))
			}
			if pod.Spec.Subdomain == s.Name {
				e.Hostname = &pod.Spec.Hostname
			}
			if distribution := s.Spec.TrafficDistribution; distribution != nil && isReady {
				e.Hints = &discoveryv1.EndpointHints{}
				if e.Zone != nil {
					e.Hints.ForZones = []discoveryv1.ForZone{{Name: *e.Zone}}
				}
				if *distribution == corev1.ServiceTrafficDistributionPreferSameNode {
					e.Hints.ForNodes = []discoveryv1.ForNode{{Name: *e.NodeName}}
				}
			}
			all = append(all, fmt.Sprint(family, resolved(s, pod), endpointText(e)))
		}
	}
	return all
}

// resolved are the ports of a Service on a pod, as portsText.
func resolved(s *corev1.Service, pod *corev1.Pod) string {
	var ports []discoveryv1.EndpointPort
	for _, p := range s.Spec.Ports {
		number := p.TargetPort.IntVal
		for _, of := range pod.Spec.Containers[0].Ports {
			if of.Name == p.TargetPort.StrVal {
				number = of.ContainerPort
			}
		}
		if number > 0 {
			ports = append(ports, discoveryv1.EndpointPort{Name: ptr.To(p.Name), Port: &number})
		}
	}
	return portsText(ports)
}

func portsText(ports []discoveryv1.EndpointPort) string {
	var all []string
	for _, p := range ports {
		all = append(all, fmt.Sprint(" ", *p.Name, "=", *p.Port))
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// endpointText leaves out the hints of endpoints that are not ready, which may have some of before.
func endpointText(e discoveryv1.Endpoint) string {
	hints := ""
	if *e.Conditions.Ready && e.Hints != nil && len(e.Hints.ForZones)+len(e.Hints.ForNodes) > 0 {
		hints = fmt.Sprint(e.Hints.ForZones, e.Hints.ForNodes)
	}
	return fmt.Sprint(" ", e.Addresses, *e.Conditions.Ready, *e.Conditions.Serving, *e.Conditions.Terminating, " ",
		*e.NodeName, ptr.Deref(e.Zone, "-"), ptr.Deref(e.Hostname, "-"), " ", e.TargetRef.Name, e.TargetRef.UID, hints)
}
