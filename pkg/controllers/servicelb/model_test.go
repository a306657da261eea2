package servicelb

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with Services, nodes and a cloud.
type model struct {
	*simulation.World
	t     *testing.T
	cloud *fakecloud.Cloud
	// hold are the calls that are held, nil for none. No updates of nodes are: the library reads a Service for the next
	// one without the lock under which its worker writes it.
	hold *fakecloud.Hold
	runs *simulation.Running
	// starts is how many instances there were.
	starts int
	// strips is whether users take finalizers away, and lost whether an instance ended without a hand-over. The load
	// balancer of a Service that is deleted without a finalizer stays then.
	strips, lost bool
	// had are the Services with a load balancer, unwanted those that did not want one at any time.
	had, unwanted map[types.UID]bool
	// late are the Services that were written after the library had given up on that, or that were given an address before
	// the cache showed that they are of another class.
	late map[types.UID]bool
	// given are the Services to which the controller of the other class has given an address.
	given map[types.UID]bool
	// steady is whether no calls are held, so that none comes late with former nodes, and no nodes may be missed.
	steady bool
	// called are the Services, by key, for whose load balancer this instance has set the nodes, or one that it follows.
	called map[string]bool
	// behind are the nodes that were behind the load balancer of each Service, as far as they have set them, and
	// left those that were excluded or deleted at any time.
	behind map[types.UID]map[types.UID]bool
	left   map[types.UID]bool
}

var errCloud = errors.New("the cloud is out of order")

// TestWhateverHappensEachServiceHasItsLoadBalancerInTheEnd has Services and nodes change, calls of the cloud fail or
// take long, and the controller restarted, while the caches are behind, or lack objects that exist. No Service loses
// the load balancer that it wants, no load balancer loses a node that exists (SLB-38), and in the end there is one for
// each, with the nodes as they are, and no other.
func TestWhateverHappensEachServiceHasItsLoadBalancerInTheEnd(t *testing.T) {
	simulation.RunInBubbles(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{
			World: w, t: t, cloud: fakecloud.The(), unwanted: map[types.UID]bool{}, left: map[types.UID]bool{},
			late: map[types.UID]bool{}, given: map[types.UID]bool{},
			strips: w.OneIn(2), steady: w.OneIn(2),
		}).run()
	})
}

func (m *model) run() {
	m.cloud.Reset()
	m.cloud.Disturb(m.trouble)
	m.Start = m.start
	m.Lossy = func(o runtime.Object) bool { return m.OneIn(2) }
	m.nodes()
	m.users()
	m.MayComeLate = simulation.AnyWrite
	m.Validate = func(_, is runtime.Object) error {
		s, ok := is.(*corev1.Service)
		if ok && (m.IsLateWrite() || s.Spec.LoadBalancerClass != nil && hasAddress(s, fakecloud.BalancerIP)) {
			m.late[s.UID] = true
		}
		return nil
	}
	m.Begin()
	m.Play(m.others, m.users)
	m.Faulty = false
	m.Settle(0, nil)
	m.release()
	// The longest pause between two attempts is five minutes, after which a cache that is behind is believed, too.
	for range 25 {
		m.Drain()
		m.Pass(2 * time.Minute)
	}
	m.Drain()
	m.check()
	m.runs.Stop()
}

func (m *model) start(env controller.Env, left any) simulation.Instance {
	if m.runs != nil && left == nil {
		m.lost = true
		m.kill()
	}
	m.starts++
	if left == nil { // nobody knows of the nodes that the list lacks
		m.called, m.behind = map[string]bool{}, nil
	}
	var c *balancerController
	m.runs = simulation.RunFree(m.World, env, func(env controller.Env) controller.Controller {
		c = must.Get(newController(env, configWith(1)))(m.t)
		return c
	})
	return simulation.Instance{HandOver: func() any {
		if m.OneIn(2) {
			m.kill()
		} else {
			m.release()
			m.runs.Stop()
		}
		return c.HandOver()
	}}
}

func (m *model) kill() {
	m.runs.Kill()
	m.release()
}

// trouble is what becomes of a call of the cloud. Like the API server, it answers one at a time.
func (m *model) trouble(what string) (refused, lost error) {
	m.Fake.Lock()
	defer m.Fake.Unlock()
	if m.Faulty {
		switch m.Rand.IntN(8) {
		case 0:
			refused = errCloud
		case 1:
			lost = errCloud
		}
	}
	if method, service, _ := strings.Cut(what, " "); refused == nil {
		m.called[service] = m.called[service] || method == "EnsureLoadBalancer" || method == "UpdateLoadBalancer"
	}
	m.Note("cloud: %s -> %v, %v", what, refused, lost)
	return refused, lost
}

func (m *model) release() {
	if m.hold != nil {
		m.hold.Release()
		m.hold = nil
		m.Pass(0)
	}
}

func hasAddress(s *corev1.Service, ip string) bool {
	ingress := s.Status.LoadBalancer.Ingress
	return len(ingress) == 1 && ingress[0].IP == ip
}

// theirs is the address of load balancers of the other class.
const theirs = "198.51.100.9"

// otherClass has the controller of the other class give its Services an address, once.
func (m *model) otherClass() {
	for _, s := range simulation.All[*corev1.Service](m.World) {
		if s.Spec.LoadBalancerClass != nil && s.DeletionTimestamp == nil && !m.given[s.UID] {
			m.Note("%s gets an address of the other class", s.Name)
			m.given[s.UID] = true
			simulation.Change(m.World, s, func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: theirs}}
			})
		}
	}
}

// others are nodes, the cloud and the controller of another class.
func (m *model) others() {
	switch m.Rand.IntN(5) {
	case 0:
		m.nodes()
	case 1:
		m.users()
	case 2:
		if m.hold == nil && !m.steady {
			m.hold = m.cloud.Hold([]string{"EnsureLoadBalancer ", "EnsureLoadBalancer", "EnsureLoadBalancerDeleted"}[m.Rand.IntN(3)])
		}
	case 3:
		m.release()
	case 4:
		m.otherClass()
	}
	m.observe()
}

func (m *model) nodes() {
	name := fmt.Sprint("n", m.Rand.IntN(4))
	node, ok := simulation.Get[*corev1.Node](m.World, "", name)
	switch {
	case !ok:
		m.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	case m.OneIn(3):
		m.left[node.UID] = true
		m.Delete(node, nil)
	case m.OneIn(2):
		m.Note("node %s: provider ID", name)
		simulation.Change(m.World, node, func(n *corev1.Node) { n.Spec.ProviderID = fmt.Sprint("fake://", m.Rand.IntN(3)) })
	default:
		m.Note("node %s: excluded or included", name)
		simulation.Change(m.World, node, func(n *corev1.Node) {
			if n.Labels = nil; m.OneIn(2) {
				n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
				m.left[node.UID] = true
			}
		})
	}
}

func (m *model) users() {
	n := m.Rand.IntN
	name := []string{"x", "y"}[n(2)]
	service, ok := simulation.Get[*corev1.Service](m.World, "a", name)
	if !ok {
		made := balanced(name, func(s *corev1.Service) { s.UID = "" })
		if n(4) == 0 {
			made.Spec.LoadBalancerClass = ptr.To("other")
		}
		m.Create(made)
		return
	}
	change := func(what string, change func(*corev1.Service)) {
		m.Note("user: %s %s", what, name)
		simulation.Change(m.World, service, change)
	}
	switch what := n(6); {
	case what == 0:
		m.Delete(service, nil)
	case what == 1:
		change("annotates", func(s *corev1.Service) { s.Annotations = map[string]string{"a": fmt.Sprint(n(100))} })
	case what == 2:
		if service.Spec.Type == corev1.ServiceTypeLoadBalancer {
			change("wants no load balancer for", func(s *corev1.Service) {
				s.Spec.Type, s.Spec.LoadBalancerClass, s.Status.LoadBalancer = corev1.ServiceTypeClusterIP, nil, corev1.LoadBalancerStatus{}
				delete(m.given, s.UID)
			})
		} else {
			change("wants a load balancer for", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })
		}
	case what == 3 && m.strips:
		change("replaces", func(s *corev1.Service) { s.Finalizers = nil })
	case what == 4:
		if service.Spec.Type == corev1.ServiceTypeClusterIP {
			change("sets another class of", func(s *corev1.Service) {
				s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, ptr.To("other")
			})
		}
	case what == 5:
		change("changes the port of", func(s *corev1.Service) { s.Spec.Ports[0].Port = int32(80 + n(3)) })
	}
	m.observe()
}

func wants(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil && s.DeletionTimestamp == nil
}

// observe checks that no load balancer is gone that was wanted all the time.
func (m *model) observe() {
	has := map[types.UID]bool{}
	for _, s := range simulation.All[*corev1.Service](m.World) {
		_, has[s.UID] = m.cloud.Hosts(s)
		m.unwanted[s.UID] = m.unwanted[s.UID] || !wants(s)
		if m.had[s.UID] && !has[s.UID] && !m.unwanted[s.UID] {
			m.t.Errorf("%s has lost its load balancer", s.Name)
		}
	}
	m.had = has
	if m.steady {
		m.observeNodes()
	}
}

// observeNodes checks that no load balancer has lost a node that has existed, and was not excluded, all the time.
func (m *model) observeNodes() {
	before := m.behind
	m.behind = map[types.UID]map[types.UID]bool{}
	for _, s := range simulation.All[*corev1.Service](m.World) {
		hosts, ok := m.cloud.Nodes(s)
		if !ok || !wants(s) || !m.called[s.Namespace+"/"+s.Name] {
			continue
		}
		has := map[types.UID]bool{} // not by name: a former node of the name may come late, and has to leave
		for _, host := range hosts {
			has[host.UID] = true
		}
		behind := map[types.UID]bool{}
		for _, node := range simulation.All[*corev1.Node](m.World) {
			behind[node.UID] = has[node.UID]
			if before[s.UID][node.UID] && !behind[node.UID] && !m.left[node.UID] {
				m.t.Errorf("the load balancer of %s has lost node %s", s.Name, node.Name)
			}
		}
		m.behind[s.UID] = behind
	}
}

func (m *model) check() {
	var hosts []string
	for _, node := range simulation.All[*corev1.Node](m.World) {
		if node.Labels == nil {
			hosts = append(hosts, node.Name)
		}
	}
	var want []string
	isLeft := m.strips && m.lost
	for _, s := range simulation.All[*corev1.Service](m.World) {
		ingress := s.Status.LoadBalancer.Ingress
		if m.given[s.UID] && !m.late[s.UID] && !hasAddress(s, theirs) {
			m.t.Errorf("%s has %v instead of the address of the other class", s.Name, ingress)
		}
		switch {
		case s.DeletionTimestamp != nil:
			m.t.Errorf("%s stays", s.Name)
		case wants(s):
			want = append(want, fmt.Sprintf("load balancer of a/%s: %s", s.Name, strings.Join(hosts, " ")))
			if !hasAddress(s, fakecloud.BalancerIP) || !servicehelpers.HasLBFinalizer(s) {
				m.t.Errorf("%s has %v, %v", s.Name, ingress, s.Finalizers)
			}
		case s.Spec.LoadBalancerClass != nil && (m.starts > 1 || m.late[s.UID]):
			// An earlier instance may have made a load balancer before it saw the class, or the finalizer may have come when
			// there was one. It may also be that of the other controller, so none of it is touched before the Service is
			// deleted (SLB-23).
			isLeft = isLeft || servicehelpers.HasLBFinalizer(s)
		case len(s.Finalizers) > 0 || len(ingress) > 0 && !m.given[s.UID]:
			m.t.Errorf("%s, which wants no load balancer, has %v, %v", s.Name, ingress, s.Finalizers)
		}
	}
	if got := m.cloud.Contents(); !slices.Equal(got, want) && !isLeft {
		m.t.Errorf("the cloud has %v, want %v", got, want)
	}
}
