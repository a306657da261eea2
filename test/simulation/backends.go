package simulation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/pods"
)

// Backends plays the users and kubelets of a world with Services, their pods, and nodes with zones. What has a
// namespace is in ns.
type Backends struct {
	*World
	// Spared reports whether users and kubelets leave an object alone. Default: none.
	Spared func(metav1.Object) bool
	// Shape changes the spec of a Service. Default: Random.
	Shape func(*corev1.Service)
}

const (
	backendNodes = 3
	backendPods  = 8
)

// Populate creates what there is at the beginning.
func (b *Backends) Populate() {
	for i := range backendNodes {
		b.Create(b.node(fmt.Sprint("n", i)))
	}
	for range b.Rand.IntN(backendPods) {
		b.podUser()
	}
	b.serviceUser()
}

func (b *Backends) node(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.zone(node)
	return node
}

// zone gives a node a zone, or none.
func (b *Backends) zone(node *corev1.Node) {
	node.Labels = map[string]string{corev1.LabelTopologyZone: fmt.Sprint("z", b.Rand.IntN(2))}
	if b.OneIn(4) {
		node.Labels = nil
	}
}

// User is one thing that a user does.
func (b *Backends) User() {
	switch b.Rand.IntN(4) {
	case 0:
		b.nodeUser()
	case 1:
		b.serviceUser()
	default:
		b.podUser()
	}
}

func (b *Backends) spares(object metav1.Object) bool { return b.Spared != nil && b.Spared(object) }

func (b *Backends) nodeUser() {
	name := fmt.Sprint("n", b.Rand.IntN(backendNodes))
	node, ok := Get[*corev1.Node](b.World, "", name)
	switch {
	case !ok:
		b.Create(b.node(name))
	case b.OneIn(3) && !b.spares(node):
		b.Delete(node, nil)
	default:
		b.Note("node %s is labelled", name)
		Change(b.World, node, b.zone)
	}
}

func (b *Backends) serviceUser() {
	name := []string{"a", "a", "b"}[b.Rand.IntN(3)]
	service, ok := Get[*corev1.Service](b.World, "ns", name)
	shape := b.Shape
	if shape == nil {
		shape = b.Random
	}
	switch {
	case !ok:
		created := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		shape(created)
		b.Create(created)
	case b.OneIn(4) && !b.spares(service):
		b.Delete(service, nil)
	default:
		b.Note("Service %s is edited", name)
		Change(b.World, service, shape)
	}
}

// Random replaces the spec of a Service, except for its first IP family.
func (b *Backends) Random(s *corev1.Service) {
	families := [][]corev1.IPFamily{
		{corev1.IPv4Protocol}, {corev1.IPv4Protocol, corev1.IPv6Protocol},
		{corev1.IPv6Protocol}, {corev1.IPv6Protocol, corev1.IPv4Protocol},
	}
	if of := s.Spec.IPFamilies; len(of) > 0 {
		families = slices.DeleteFunc(families, func(f []corev1.IPFamily) bool { return f[0] != of[0] })
	}
	n := b.Rand.IntN
	s.Spec = corev1.ServiceSpec{IPFamilies: families[n(len(families))], ClusterIP: "10.1.0.1"}
	s.Spec.Selector = []map[string]string{{"app": "x"}, {"app": "x"}, {"app": "y"}, nil}[n(4)]
	s.Spec.PublishNotReadyAddresses = n(4) == 0
	if n(8) == 0 {
		s.Spec.Type = corev1.ServiceTypeExternalName
	}
	if n(3) == 0 {
		s.Spec.ClusterIP = corev1.ClusterIPNone
	}
	b.Ports(s)
	b.Describe(s)
}

// Ports gives a Service other ports.
func (b *Backends) Ports(s *corev1.Service) {
	port := func(name string, target intstr.IntOrString) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: target}
	}
	s.Spec.Ports = [][]corev1.ServicePort{
		{port("http", intstr.FromString("http"))},
		{port("http", intstr.FromInt32(8080))},
		{port("http", intstr.FromString("http")), port("admin", intstr.FromString("admin"))},
	}[b.Rand.IntN(3)]
}

// Describe gives a Service other labels and another distribution of its traffic.
func (b *Backends) Describe(s *corev1.Service) {
	s.Labels = map[string]string{"team": fmt.Sprint(b.Rand.IntN(3))}
	s.Spec.TrafficDistribution = []*string{
		nil, ptr.To(corev1.ServiceTrafficDistributionPreferClose), ptr.To(corev1.ServiceTrafficDistributionPreferSameNode),
	}[b.Rand.IntN(3)]
}

func (b *Backends) podUser() {
	name := fmt.Sprint("p", b.Rand.IntN(backendPods))
	pod, ok := Get[*corev1.Pod](b.World, "ns", name)
	switch {
	case !ok:
		b.Create(b.Pod(name, []string{"x", "x", "y"}[b.Rand.IntN(3)]))
	case b.spares(pod):
	case b.OneIn(2):
		if pod.DeletionTimestamp == nil {
			b.Delete(pod, nil)
		}
	case b.OneIn(3):
		b.Note("pod %s is relabelled", name)
		Change(b.World, pod, func(p *corev1.Pod) { p.Labels = map[string]string{"app": []string{"x", "y"}[b.Rand.IntN(2)]} })
	}
}

// Pod is a pod to be created.
func (b *Backends) Pod(name, app string) *corev1.Pod {
	ports := []corev1.ContainerPort{{Name: "http", ContainerPort: int32(8080 + b.Rand.IntN(2)), Protocol: corev1.ProtocolTCP}}
	if b.OneIn(2) {
		ports = append(ports, corev1.ContainerPort{Name: "admin", ContainerPort: 9090, Protocol: corev1.ProtocolTCP})
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Ports: ports}}},
	}
	if b.OneIn(3) {
		pod.Spec.Hostname, pod.Spec.Subdomain = name, "a"
	}
	return pod
}

// Act is what the kubelets, the scheduler and pod garbage collection do: a step with about a third of the pods, or with
// all of them. It reports whether anything was done.
func (b *Backends) Act(all bool) (did bool) {
	for _, pod := range All[*corev1.Pod](b.World) {
		if b.spares(pod) || !all && !b.OneIn(3) {
			continue
		}
		if do := b.next(pod, all); do != nil {
			do(pod)
			did = true
		}
	}
	return did
}

// next returns what happens to a pod next, nil if nothing does.
func (b *Backends) next(pod *corev1.Pod, all bool) func(*corev1.Pod) {
	_, hasNode := Get[*corev1.Node](b.World, "", pod.Spec.NodeName)
	isDeleted, hasEnded := pod.DeletionTimestamp != nil, pods.IsTerminal(pod)
	switch {
	case pod.Spec.NodeName == "":
		return b.bind()
	case !hasNode && (all || b.OneIn(4)), isDeleted && (hasEnded || b.OneIn(2)):
		return func(pod *corev1.Pod) { b.Delete(pod, ptr.To[int64](0)) }
	case hasEnded:
		return nil
	case isDeleted && b.OneIn(2):
		return b.fail()
	}
	return b.live(pod, all)
}

// live returns what the kubelet of a pod does to it.
func (b *Backends) live(pod *corev1.Pod, all bool) func(*corev1.Pod) {
	switch {
	case len(pod.Status.PodIPs) == 0:
		return b.change("runs", b.run)
	case !pods.IsReady(pod) && (all || b.OneIn(2)):
		return b.change("is ready", func(p *corev1.Pod) { b.ready(p, corev1.ConditionTrue) })
	case all || b.OneIn(2):
		return nil
	}
	switch b.Rand.IntN(6) {
	case 0:
		return b.fail()
	case 1:
		return b.change("gets another IP", b.run)
	}
	return b.change("is not ready", func(p *corev1.Pod) { b.ready(p, corev1.ConditionFalse) })
}

func (b *Backends) change(what string, change func(*corev1.Pod)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		b.Note("kubelet: %s %s", pod.Name, what)
		Change(b.World, pod, change)
	}
}

func (b *Backends) bind() func(*corev1.Pod) {
	nodes := All[*corev1.Node](b.World)
	if len(nodes) == 0 {
		return nil
	}
	node := nodes[b.Rand.IntN(len(nodes))].Name
	return b.change("is bound", func(p *corev1.Pod) { p.Spec.NodeName = node })
}

func (b *Backends) fail() func(*corev1.Pod) {
	return b.change("fails", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
}

// run gives a pod IPs that no other uses.
func (b *Backends) run(pod *corev1.Pod) {
	used := map[string]bool{}
	for _, other := range All[*corev1.Pod](b.World) {
		if !pods.IsTerminal(other) {
			used[other.Status.PodIP] = true
		}
	}
	ip := ""
	for n := 1 + b.Rand.IntN(4); ip == "" || used[ip]; n++ {
		ip = fmt.Sprint("10.0.0.", n)
	}
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, ip
	pod.Status.PodIPs = []corev1.PodIP{{IP: ip}, {IP: "fd00::" + ip[len("10.0.0."):]}}
	if b.OneIn(4) {
		pod.Status.PodIPs = pod.Status.PodIPs[:1]
	}
	b.ready(pod, corev1.ConditionFalse)
}

func (b *Backends) ready(pod *corev1.Pod, is corev1.ConditionStatus) {
	now := metav1.NewTime(b.Clock.Now())
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: is, LastTransitionTime: now}}
}

// Run makes a pod that runs on a node, and is ready.
func (b *Backends) Run(pod *corev1.Pod, node string) {
	b.Create(pod)
	pod, _ = Get[*corev1.Pod](b.World, "ns", pod.Name)
	Change(b.World, pod, func(p *corev1.Pod) {
		p.Spec.NodeName = node
		b.run(p)
		b.ready(p, corev1.ConditionTrue)
	})
}
