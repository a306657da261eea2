package cloud

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/controllers/service"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// newSession is a session of a library that lists the nodes which an environment caches.
func newSession(t *testing.T, env *controllertest.Env) *Session {
	t.Helper()
	w := newWorld(t)
	w.nodes = env.Informers.Core().V1().Nodes().Lister()
	return &Session{Env: env.Env, Client: env.Client, guard: w.guard}
}

// hostListing lists hosts as the library does, which has listed the first nodes.
type hostListing struct {
	*controllertest.Env
	session *Session
	*hosts
	// handler gets the events of the cache, and events has those that the library gets.
	handler cache.ResourceEventHandler
	events  chan string
}

func newHostListing(t *testing.T, nodes ...*corev1.Node) *hostListing {
	t.Helper()
	env := controllertest.New(t)
	l := &hostListing{Env: env, session: newSession(t, env), events: make(chan string, 100)}
	for _, node := range nodes {
		env.Store(t, node)
		env.Cache(t, node)
	}
	l.session.Hosts()
	l.hosts = l.session.guard.hosts
	l.library = cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, obj any) { l.events <- "updated " + obj.(*corev1.Node).Name },
		DeleteFunc: func(obj any) { l.events <- "deleted " + must.Get(cache.DeletionHandlingMetaNamespaceKeyFunc(obj))(t) },
	}
	l.handler = hostHandler{l.library, l.hosts}
	l.want(t, controllertest.Names(nodes)...)
	l.Requests()
	return l
}

// lose has the cache lack a node, and report that it is gone.
func (l *hostListing) lose(t *testing.T, node *corev1.Node) {
	t.Helper()
	l.Uncache(t, node)
	l.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: node.Name, Obj: node})
}

// want checks the names of the hosts.
func (l *hostListing) want(t *testing.T, names ...string) {
	t.Helper()
	got := controllertest.Names(must.Get(l.List(labels.Everything()))(t))
	if !slices.Equal(got, names) {
		t.Errorf("the hosts are %v, want %v", got, names)
	}
}

// wantEvents takes the events since the last time, which have to be these.
func (l *hostListing) wantEvents(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for len(l.events) > 0 {
		got = append(got, <-l.events)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the library got the events %q, want %q", got, want)
	}
}

// A cache may lack nodes that exist, and every load balancer would lose them. What the library and the provider get
// goes on as it was until the answer is there, and for as long as there is none.
func TestANodeThatTheCacheLacks(t *testing.T) {
	for name, tc := range map[string]struct {
		// becomes is what has become of node b.
		becomes func(*testing.T, *hostListing, *corev1.Node)
		hosts   []string
		events  []string
		lists   int
		// is has the provider ID with which the provider gets it, again whether it is read again later.
		is    string
		again bool
	}{
		"SLB-38: it is gone": {
			func(t *testing.T, l *hostListing, b *corev1.Node) { l.Remove(t, b) },
			[]string{"a"}, []string{"deleted b"}, 1, "", false,
		},
		"SLB-38: it exists": {
			func(*testing.T, *hostListing, *corev1.Node) {}, []string{"a", "b"}, []string{"updated b"}, 1, "fake://1", true,
		},
		"SLB-38: it has changed": {
			func(t *testing.T, l *hostListing, b *corev1.Node) {
				controllertest.Change(t, l.Env, "", "b", func(n *corev1.Node) { n.Spec.ProviderID = "fake://2" })
			},
			[]string{"a", "b"}, []string{"updated b"}, 1, "fake://2", true,
		},
		"SLB-38: it is excluded by now": {
			func(t *testing.T, l *hostListing, b *corev1.Node) {
				controllertest.Change(t, l.Env, "", "b", func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""} })
			},
			[]string{"a"}, []string{"deleted b"}, 1, "", false,
		},
		"SLB-38: the cache shows it again": {
			func(t *testing.T, l *hostListing, b *corev1.Node) { l.Cache(t, b) }, []string{"a", "b"}, nil, 0, "fake://1", false,
		},
		"SLB-39: there is no answer": {
			func(_ *testing.T, l *hostListing, _ *corev1.Node) { l.Refuse("list nodes", errFake) },
			[]string{"a", "b"}, nil, 1, "fake://1", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := nodeOf("b", "2")
			b.Spec.ProviderID = "fake://1"
			l := newHostListing(t, nodeOf("a", "1"), b)
			reduced := must.Get(l.List(labels.Everything()))(t)
			l.lose(t, b)
			l.want(t, "a", "b")
			l.wantEvents(t)
			if sent := l.Requests(); len(sent) > 0 {
				t.Errorf("a list of the hosts sent %v", sent)
			}
			tc.becomes(t, l, b)
			l.Requests()
			if again := l.confirm(t.Context()); again != tc.again {
				t.Errorf("it is read again later: %t, want %t", again, tc.again)
			}
			if sent := l.Requests(); len(sent) != tc.lists {
				t.Errorf("%v were sent, want %d", sent, tc.lists)
			}
			l.want(t, tc.hosts...)
			l.wantEvents(t, tc.events...)
			whole := must.Get(l.whole(reduced))(t)
			id := ""
			for _, node := range whole {
				id += node.Spec.ProviderID
			}
			if id != tc.is || len(whole) != len(tc.hosts) {
				t.Errorf("the provider gets %v", whole)
			}
		})
	}
}

// The library may list the nodes before the event of a deletion. Pins SLB-38.
func TestANodeThatTheCacheLacksBeforeItsEvent(t *testing.T) {
	a := nodeOf("a", "1")
	l := newHostListing(t, a)
	l.Uncache(t, a)
	l.want(t, "a")
	late := new(*api.RetryError)
	if _, err := l.whole([]*corev1.Node{hostOf(a)}); !errors.As(err, late) || (*late).RetryAfter() != recheck {
		t.Errorf("got %v", err)
	}
}

// The event of a former node may be late, and a later one may have come and gone without having been listed.
// Pins SLB-38.
func TestANodeThatTheCacheLacksOfThatName(t *testing.T) {
	for name, exists := range map[string]bool{"it exists": true, "it is gone": false} {
		t.Run(name, func(t *testing.T) {
			host, other := nodeOf("a", "1"), nodeOf("a", "2")
			other.DeletionTimestamp = &metav1.Time{Time: controllertest.Epoch}
			l := newHostListing(t, host)
			l.Uncache(t, host)
			l.handler.OnDelete(other)
			l.want(t, "a")
			l.wantEvents(t)
			if _, err := l.whole([]*corev1.Node{hostOf(host)}); err == nil {
				t.Error("the provider gets a node of which no state is known")
			}
			want := "updated a"
			if !exists {
				want = "deleted a"
				l.Remove(t, host)
			}
			l.confirm(t.Context())
			l.wantEvents(t, want)
			if whole := must.Get(l.whole([]*corev1.Node{hostOf(host)}))(t); len(whole) == 1 != exists {
				t.Errorf("the provider gets %v", whole)
			}
		})
	}
}

// A load balancer may have got another node of the name than the library has listed. Pins SLB-38.
func TestANodeThatReplacedAHostIsNotTakenOutWithIt(t *testing.T) {
	host, other := nodeOf("a", "1"), nodeOf("a", "2")
	l := newHostListing(t, host)
	l.Store(t, other)
	l.Cache(t, other)
	must.Get(l.whole([]*corev1.Node{hostOf(host)}))(t)
	l.Uncache(t, other)
	former := host.DeepCopy()
	former.DeletionTimestamp = &metav1.Time{Time: controllertest.Epoch}
	l.handler.OnDelete(former)
	l.confirm(t.Context())
	l.want(t, "a")
	l.wantEvents(t, "updated a")
}

// Pins SLB-38.
func TestManyNodesAreReadByOneList(t *testing.T) {
	var nodes []*corev1.Node
	var names []string
	for i := range fewNodes + 1 {
		names = append(names, "n"+strconv.Itoa(i))
		nodes = append(nodes, nodeOf(names[i], types.UID(names[i])))
	}
	l := newHostListing(t, nodes...)
	for _, node := range nodes {
		l.lose(t, node)
	}
	l.Remove(t, nodes[0])
	for _, want := range []int{1, fewNodes} {
		l.Requests()
		l.confirm(t.Context())
		l.want(t, names[1:]...)
		if sent := l.Requests(); len(sent) != want {
			t.Errorf("%v were sent, want %d", sent, want)
		}
	}
}

// Pins SLB-38.
func TestNodesThatLoadBalancersDoNotHaveAreNotRead(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		read   bool
	}{
		"included": {func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: "false"} }, true},
		"excluded": {func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: "true"} }, false},
		"marked":   {func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""} }, false},
		"tainted":  {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: service.ToBeDeletedTaint}} }, false},
		"deleted":  {func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: controllertest.Epoch} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeOf("a", "1")
			tc.change(node)
			l := newHostListing(t, node)
			l.lose(t, node)
			if again := l.confirm(t.Context()); again != tc.read {
				t.Errorf("it is read: %t", again)
			}
			if !tc.read {
				l.want(t)
				l.wantEvents(t, "deleted a")
			}
		})
	}
	t.Run("never listed", func(t *testing.T) {
		l := newHostListing(t)
		l.lose(t, nodeOf("a", "1"))
		l.want(t)
		l.wantEvents(t, "deleted a")
	})
}

// The library does not list the nodes when a taint goes, but a Service that it works on gets the node. Pins SLB-38.
func TestANodeThatServesSinceItWasListedIsRead(t *testing.T) {
	node := nodeOf("a", "1")
	tainted := node.DeepCopy()
	tainted.Spec.Taints = []corev1.Taint{{Key: service.ToBeDeletedTaint}}
	l := newHostListing(t, tainted)
	l.Store(t, node)
	l.Cache(t, node)
	l.lose(t, node)
	l.wantEvents(t)
	l.confirm(t.Context())
	l.want(t, "a")
	l.wantEvents(t, "updated a")
}

// One goroutine reads the nodes, at once, and again later if the list fails or a node exists: there may be no event of
// its deletion. Pins SLB-38 and SLB-39.
func TestNodesThatTheCacheLacksAreReadAgain(t *testing.T) {
	a, b := nodeOf("a", "1"), nodeOf("b", "2")
	l := newHostListing(t, a, b)
	l.Remove(t, b)
	allow := l.Refuse("list nodes", errFake)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- l.session.ConfirmHosts(ctx) }()
	l.lose(t, a)
	controllertest.Eventually(t, "the list has failed", l.Clock.HasWaiters)
	l.wantEvents(t)
	allow()
	l.lose(t, b) // which is read together with the other one
	l.Clock.Step(reconcile.RecheckAfter)
	controllertest.Eventually(t, "both are read", func() bool { return len(l.events) == 2 })
	l.wantEvents(t, "updated a", "deleted b")
	controllertest.Eventually(t, "one is to be read again", l.Clock.HasWaiters)
	if len(l.due) == 0 {
		t.Error("a deletion had a list sent within ten seconds of the last one")
	}
	for range 2 {
		l.Clock.Step(reconcile.RecheckAfter)
		controllertest.Eventually(t, "it is read", func() bool { return len(l.events) > 0 })
		l.wantEvents(t, "updated a")
		controllertest.Eventually(t, "it is to be read again", l.Clock.HasWaiters)
	}
	l.Remove(t, a)
	l.Clock.Step(reconcile.RecheckAfter - time.Second)
	l.wantEvents(t)
	l.Clock.Step(time.Second)
	controllertest.Eventually(t, "it is read", func() bool { return len(l.events) > 0 })
	l.wantEvents(t, "deleted a")
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if l.Clock.HasWaiters() {
		t.Error("it is read again though it is gone")
	}
}

// The next instance asks for every load balancer when it begins. Pins SLB-45.
func TestTheNextInstanceKeepsNodesThatTheCacheLacks(t *testing.T) {
	for name, tc := range map[string]struct {
		// lost is whether the cache of the former instance lacks node b, too, gone whether it does not exist.
		lost, gone bool
		hosts      []string
		events     []string
	}{
		"it exists":                   {false, false, []string{"a", "b"}, []string{"updated b"}},
		"it was lacking before":       {true, false, []string{"a", "b"}, []string{"updated b"}},
		"it is gone":                  {false, true, []string{"a"}, []string{"deleted b"}},
		"it was lacking, and is gone": {true, true, []string{"a"}, []string{"deleted b"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := nodeOf("a", "1"), nodeOf("b", "2")
			former := newHostListing(t, a, b)
			if tc.lost {
				former.lose(t, b)
			}
			left := former.session.Leave()
			l := newHostListing(t, a)
			if !tc.gone {
				l.Store(t, b)
			}
			l.inherit(left.hosts)
			l.want(t, "a", "b")
			if got := must.Get(l.whole(must.Get(l.List(labels.Everything()))(t)))(t); len(got) != 2 {
				t.Errorf("the provider gets %v", controllertest.Names(got))
			}
			l.confirm(l.Context())
			l.want(t, tc.hosts...)
			l.wantEvents(t, tc.events...)
		})
	}
}
