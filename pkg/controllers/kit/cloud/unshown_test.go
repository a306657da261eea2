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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/cloud-provider/controllers/service"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// newSession is a session of a library that lists the nodes which an environment caches.
func newSession(t *testing.T, env *controllertest.Env) *Session {
	t.Helper()
	w := newWorld(t)
	w.nodes = env.Informers.Core().V1().Nodes().Lister()
	return &Session{Env: env.Env, Client: env.Client, guard: w.guard}
}

// hostListing lists the names of hosts, and the requests that were sent for them.
type hostListing struct {
	*controllertest.Env
	session *Session
	list    func() ([]*corev1.Node, error)
}

func newHostListing(t *testing.T, nodes ...runtime.Object) *hostListing {
	t.Helper()
	env := controllertest.New(t)
	env.Store(t, nodes...)
	env.Cache(t, nodes...)
	l := &hostListing{Env: env, session: newSession(t, env)}
	lister := l.session.Hosts().Lister()
	l.list = func() ([]*corev1.Node, error) { return lister.List(labels.Everything()) }
	l.want(t, 0, controllertest.Names(typed(nodes))...)
	return l
}

func typed(objects []runtime.Object) []*corev1.Node {
	var nodes []*corev1.Node
	for _, object := range objects {
		nodes = append(nodes, object.(*corev1.Node))
	}
	return nodes
}

// want checks the names of the hosts that are listed, and how many requests that takes.
func (l *hostListing) want(t *testing.T, requests int, names ...string) []*corev1.Node {
	t.Helper()
	l.Requests()
	hosts, err := l.list()
	if err != nil {
		t.Fatal(err)
	}
	got := controllertest.Names(hosts)
	slices.Sort(got)
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("the hosts are %v, want %v", got, names)
	}
	if sent := l.Requests(); len(sent) != requests {
		t.Errorf("%d requests were sent, want %d: %v", len(sent), requests, sent)
	}
	return hosts
}

// Pins SLB-38.
func TestANodeIsNotTakenOutBecauseTheCacheLacksIt(t *testing.T) {
	a, b := nodeOf("a", "1"), nodeOf("b", "2")
	l := newHostListing(t, a, b)
	l.want(t, 0, "a", "b")
	l.Uncache(t, b)
	l.want(t, 1, "a", "b")
	l.want(t, 0, "a", "b") // for as long as the answer is new
	l.Clock.Step(reconcile.RecheckAfter)
	l.want(t, 1, "a", "b")
	whole, err := l.session.guard.whole([]*corev1.Node{hostOf(a), hostOf(b)})
	if err != nil || !slices.Equal(controllertest.Names(whole), []string{"a", "b"}) {
		t.Errorf("the provider gets %v, %v", controllertest.Names(whole), err)
	}
	l.Cache(t, b)
	l.want(t, 0, "a", "b")
	l.Uncache(t, b)
	l.Remove(t, b)
	l.want(t, 1, "a")
	l.want(t, 0, "a")
}

// The node is as the API server has it, not as it was. Pins SLB-38.
func TestANodeThatTheCacheLacksIsReadLive(t *testing.T) {
	l := newHostListing(t, nodeOf("a", "1"))
	l.Uncache(t, nodeOf("a", "1"))
	controllertest.Change(t, l.Env, "", "a", func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""} })
	if hosts := l.want(t, 1, "a"); len(hosts) != 1 || serves(hosts[0]) {
		t.Errorf("the hosts are %v", hosts)
	}
	l.Clock.Step(reconcile.RecheckAfter)
	l.want(t, 0) // which the library does not put behind load balancers
}

// Pins SLB-38.
func TestManyNodesAreReadByOneList(t *testing.T) {
	var nodes []runtime.Object
	var names []string
	for i := range fewNodes + 1 {
		names = append(names, "n"+strconv.Itoa(i))
		nodes = append(nodes, nodeOf(names[i], types.UID(names[i])))
	}
	l := newHostListing(t, nodes...)
	l.Uncache(t, nodes...)
	l.Remove(t, nodes[0])
	l.want(t, 1, names[1:]...)
	l.Clock.Step(reconcile.RecheckAfter)
	l.want(t, fewNodes, names[1:]...)
}

// Pins SLB-38.
func TestNodesThatLoadBalancersDoNotHaveAreNotRead(t *testing.T) {
	for name, change := range map[string]func(*corev1.Node){
		"excluded": func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: "true"} },
		"marked":   func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""} },
		"tainted":  func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: service.ToBeDeletedTaint}} },
		"deleted":  func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: controllertest.Epoch} },
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeOf("a", "1")
			change(node)
			l := newHostListing(t, node)
			l.Uncache(t, node)
			l.want(t, 0)
		})
	}
	included := nodeOf("a", "1")
	included.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: "false"}
	l := newHostListing(t, included)
	l.Uncache(t, included)
	l.want(t, 1, "a")
}

// A failure is an error for all who come within a second. Pins SLB-38.
func TestNodesWithoutAnAnswerAreNotTakenOut(t *testing.T) {
	l := newHostListing(t, nodeOf("a", "1"))
	l.Uncache(t, nodeOf("a", "1"))
	failure := errors.New("out of order")
	allow := l.Refuse("list nodes", failure)
	l.Requests()
	for range 3 {
		if _, err := l.list(); !errors.Is(err, failure) {
			t.Errorf("the error is %v", err)
		}
		if _, err := l.session.guard.whole([]*corev1.Node{nodeOf("a", "1")}); !errors.Is(err, failure) {
			t.Errorf("the error for the provider is %v", err)
		}
	}
	if sent := l.Requests(); len(sent) != 1 {
		t.Errorf("the requests are %v", sent)
	}
	allow()
	l.Clock.Step(recheck)
	l.want(t, 1, "a")
}

// There may be no event when a node is deleted that the cache lacks. Pins SLB-38.
func TestNodesThatTheCacheLacksAreReadAgain(t *testing.T) {
	l := newHostListing(t, nodeOf("a", "1"))
	queued := make(chan string, 10)
	var handler cache.ResourceEventHandler = cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(obj any) { queued <- obj.(*corev1.Node).Name },
	}
	l.session.guard.unshown.again.Store(&handler)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- l.session.RecheckHosts(ctx) }()
	l.Uncache(t, nodeOf("a", "1"))
	for range 2 {
		l.want(t, 1, "a")
		l.EventuallyAsTimePasses(t, "the nodes are listed again", time.Second, func() bool { return len(queued) > 0 })
		if name := <-queued; name != "a" {
			t.Errorf("queued was %s", name)
		}
		l.Clock.Step(reconcile.RecheckAfter)
	}
	l.Remove(t, nodeOf("a", "1"))
	l.want(t, 1)
	// Whoever listed the nodes may have done so for one Service only.
	if len(queued) != 1 {
		t.Errorf("the end of the node queued %d nodes, want 1", len(queued))
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
