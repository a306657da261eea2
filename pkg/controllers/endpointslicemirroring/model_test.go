package endpointslicemirroring

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world in which users write Endpoints. In a calm one, requests do not fail, and nobody else touches slices.
type model struct {
	*simulation.World
	t    *testing.T
	calm bool
}

// TestWhateverHappensTheSlicesMirrorTheEndpoints has Endpoints, Services and slices edited, deleted and created again,
// requests fail and the controller restarted, while the caches are behind or incomplete.
func TestWhateverHappensTheSlicesMirrorTheEndpoints(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) { (&model{World: w, t: t}).run() })
}

func (m *model) run() {
	config := config{concurrentSyncs: 1, maxEndpoints: 5, batchPeriod: time.Duration(m.Rand.IntN(2)) * time.Second}
	m.Start = func(env controller.Env, _ any) simulation.Instance {
		c := must.Get(newController(env, config))(m.t)
		queue := simulation.NewQueue(m.World, c.reconcile)
		c.queue = queue
		m.SyncHandlers()
		must.Succeed(m.t, c.begin(m.Context()))
		return simulation.Instance{Runners: []simulation.Runner{queue}, HandOver: func() any { return c.HandOver() }}
	}
	m.calm = m.OneIn(2)
	m.Admit = m.checkCreated
	m.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}})
	m.editEndpoints("a")
	if !m.calm {
		m.MayBeLossy(2)
	}
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Faulty = m.Faulty && !m.calm
	m.Hasty = []int{0, 0, 5}[m.Rand.IntN(3)]
	m.Play(func() { m.CollectGarbage() }, m.user)
	for range bursts { // what the last steps left undone is not made good by later ones
		m.Settle(2*time.Minute, nil) // the garbage collector is slow
		m.check()
		m.Settle(2*time.Minute, m.CollectGarbage)
		m.check()
		m.burst()
	}
}

const bursts = 30

// burst is a few steps in which much is done, after which somebody may tamper with a slice.
func (m *model) burst() {
	m.Faulty = !m.calm && m.OneIn(2)
	for range 10 + m.Rand.IntN(40) {
		switch n := m.Rand.IntN(20); {
		case n < 2:
			m.user()
		case n == 2:
			m.CollectGarbage()
		default:
			m.Step()
		}
	}
	if !m.calm {
		m.tamper() // after which nothing else needs a reconcile
	}
}

func (m *model) user() {
	name := []string{"a", "a", "b"}[m.Rand.IntN(3)]
	switch n := m.Rand.IntN(6); {
	case n == 0:
		m.editService(name)
	case n < 3 && !m.calm:
		m.tamper()
	default:
		m.editEndpoints(name)
	}
}

// tamper deletes the slice that was written last, maybe without an event that reports it, or does anything else to
// one.
func (m *model) tamper() {
	all := simulation.All[*discoveryv1.EndpointSlice](m.World)
	if len(all) == 0 || m.OneIn(3) {
		m.TamperWithSlices()
		return
	}
	m.Delete(slices.MaxFunc(all, func(a, b *discoveryv1.EndpointSlice) int {
		return cmp.Or(
			cmp.Compare(len(a.ResourceVersion), len(b.ResourceVersion)), strings.Compare(a.ResourceVersion, b.ResourceVersion))
	}), nil)
	if m.OneIn(2) {
		m.Relist(&discoveryv1.EndpointSlice{})
	}
}

// checkCreated checks that no slice is created beside another one of its group. Where answers are lost, that happens.
func (m *model) checkCreated(object runtime.Object) {
	created, ok := object.(*discoveryv1.EndpointSlice)
	if !ok || !m.calm {
		return
	}
	for _, slice := range simulation.All[*discoveryv1.EndpointSlice](m.World) {
		isOf := slice.Labels[discoveryv1.LabelServiceName] == created.Labels[discoveryv1.LabelServiceName]
		if isOf && groupOf(slice) == groupOf(created) {
			m.t.Errorf("slice %s has the addresses of one that is created", slice.Name)
		}
	}
}

func (m *model) editService(name string) {
	service, ok := simulation.Get[*corev1.Service](m.World, "ns", name)
	switch {
	case !ok:
		m.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
	case m.OneIn(3):
		m.Delete(service, nil)
	default:
		m.Note("Service %s gains or loses its selector", name)
		simulation.Change(m.World, service, func(s *corev1.Service) {
			if s.Spec.Selector = nil; m.OneIn(2) {
				s.Spec.Selector = map[string]string{"app": "x"}
			}
		})
	}
}

func (m *model) editEndpoints(name string) {
	endpoints, ok := simulation.Get[*corev1.Endpoints](m.World, "ns", name)
	switch {
	case !ok:
		created := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		m.shape(created)
		m.Create(created)
	case m.OneIn(5):
		m.Delete(endpoints, nil)
	case m.OneIn(5):
		m.Delete(endpoints, nil)
		m.Create(&corev1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: name, Labels: endpoints.Labels, Annotations: endpoints.Annotations,
			},
			Subsets: endpoints.Subsets,
		})
	default:
		m.Note("Endpoints %s are edited", name)
		simulation.Change(m.World, endpoints, m.shape)
	}
}

// shape edits one thing about Endpoints.
func (m *model) shape(e *corev1.Endpoints) {
	n := m.Rand.IntN
	if len(e.Subsets) == 0 {
		e.Subsets = m.subsets()
	}
	switch n(4) {
	case 0:
		e.Labels = map[string]string{"team": fmt.Sprint(n(2))}
		if n(5) == 0 {
			e.Labels[discoveryv1.LabelSkipMirror] = "true"
		}
	case 1:
		e.Annotations = map[string]string{"note": fmt.Sprint(n(2)), corev1.LastAppliedConfigAnnotation: fmt.Sprint(n(9))}
		if n(5) == 0 {
			e.Annotations[resourcelock.LeaderElectionRecordAnnotationKey] = "{}"
		}
	default:
		e.Subsets = m.subsets()
	}
}

// subsets are one or two, of different ports and addresses, so that none are merged.
func (m *model) subsets() (all []corev1.EndpointSubset) {
	for i := range 1 + m.Rand.IntN(2) {
		port := int32(80 + i + m.Rand.IntN(2)*10)
		s := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Port: port, Protocol: corev1.ProtocolTCP}}}
		for at := range 1 + m.Rand.IntN(4) {
			a := corev1.EndpointAddress{IP: fmt.Sprintf("10.0.%d.%d", i, at)}
			if m.OneIn(2) {
				a.IP = fmt.Sprintf("fd00::%d%d", i+1, at)
			}
			if m.OneIn(2) {
				s.Addresses = append(s.Addresses, a)
			} else {
				s.NotReadyAddresses = append(s.NotReadyAddresses, a)
			}
		}
		all = append(all, s)
	}
	return all
}

func (m *model) check() {
	mirrors := map[string][]string{} // the slices of each name
	for _, slice := range simulation.All[*discoveryv1.EndpointSlice](m.World) {
		name := slice.Labels[discoveryv1.LabelServiceName]
		if slice.Labels[discoveryv1.LabelManagedBy] == managedBy && slice.DeletionTimestamp == nil {
			mirrors[name] = append(mirrors[name], m.textOf(slice))
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		var want []string
		endpoints, ok := simulation.Get[*corev1.Endpoints](m.World, "ns", name)
		service, hasService := simulation.Get[*corev1.Service](m.World, "ns", name)
		if ok && hasService && service.Spec.Selector == nil && mirrorable(endpoints) {
			want = m.desired(endpoints)
		}
		got := mirrors[name]
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			m.t.Errorf("Endpoints %s\ngot\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func (m *model) textOf(s *discoveryv1.EndpointSlice) string {
	var addresses []string
	for _, e := range s.Endpoints {
		addresses = append(addresses, fmt.Sprint(e.Addresses, *e.Conditions.Ready))
	}
	slices.Sort(addresses)
	annotations := maps.Clone(s.Annotations)
	delete(annotations, "foreign") // nobody notices an edit of the annotations of a slice
	owner := metav1.GetControllerOf(s).UID
	return fmt.Sprint(s.AddressType, " ", *s.Ports[0].Port, addresses, s.Labels["team"], annotations, owner)
}

// desired are the slices of Endpoints of which each subset has other ports.
func (m *model) desired(e *corev1.Endpoints) (all []string) {
	annotations := maps.Clone(e.Annotations)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	for _, s := range e.Subsets {
		for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
			slice := &discoveryv1.EndpointSlice{AddressType: family, Ports: []discoveryv1.EndpointPort{{Port: &s.Ports[0].Port}}}
			slice.Labels, slice.Annotations = e.Labels, annotations
			slice.OwnerReferences = []metav1.OwnerReference{{UID: e.UID, Controller: ptr.To(true)}}
			add := func(addresses []corev1.EndpointAddress, ready bool) {
				for _, a := range addresses {
					if strings.Contains(a.IP, ":") == (family == discoveryv1.AddressTypeIPv6) {
						slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
							Addresses: []string{a.IP}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
						})
					}
				}
			}
			add(s.Addresses, true)
			add(s.NotReadyAddresses, false)
			if len(slice.Endpoints) > 0 {
				all = append(all, m.textOf(slice))
			}
		}
	}
	return all
}
