package servicelb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/fake"
	"k8s.io/cloud-provider/names"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/must"
)

func configWith(workers int32) config {
	cfg := v1beta1.NewDefault()
	cfg.Cloud.Provider = fakecloud.Name
	cfg.Controllers.ServiceLB.ConcurrentSyncs = ptr.To(workers)
	return configOf(cfg)
}

// Pins SLB-1, SLB-3, SLB-4 and CLOUD-23.
func TestNamesAndValue(t *testing.T) {
	d := Descriptor()
	if d.Name != names.ServiceLBController || names.CCMControllerAliases()[d.Aliases[0]] != d.Name {
		t.Errorf("it is called %s, formerly %v", d.Name, d.Aliases)
	}
	if got := configWith(7); got.workers != 7 || got.cluster != "kubernetes" {
		t.Errorf("the value is %+v", got)
	}
	if built, err := newController(controllertest.New(t).Env, configOf(v1beta1.NewDefault())); built != nil || err != nil {
		t.Errorf("without a provider New = %v, %v", built, err)
	}
}

// meeting is the name of the provider of meetingPoint.
const meeting = "meeting"

// meetingPoint is a provider whose load balancers are asked for by two at once, and that tells for which cluster.
type meetingPoint struct {
	fake.Cloud
	meet     chan struct{}
	clusters chan string
}

// LoadBalancer implements cloudprovider.Interface.
func (m *meetingPoint) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return m, true }

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (m *meetingPoint) EnsureLoadBalancer(ctx context.Context, cluster string, _ *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	select {
	case m.meet <- struct{}{}:
	case <-m.meet:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	m.clusters <- cluster
	return &corev1.LoadBalancerStatus{}, nil
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer. It keeps no nodes.
func (m *meetingPoint) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	return nil
}

// met is what the providers called meeting are. A test makes a new one.
var met atomic.Pointer[meetingPoint]

func TestMain(m *testing.M) {
	cloudprovider.RegisterCloudProvider(meeting, func(io.Reader) (cloudprovider.Interface, error) { return met.Load(), nil })
	os.Exit(m.Run())
}

// As many workers as are configured ask at once, for the cluster that is configured. Pins CLOUD-13.
func TestWorkersAskForTheirCluster(t *testing.T) {
	point := &meetingPoint{meet: make(chan struct{}), clusters: make(chan string, 2)}
	met.Store(point)
	env := controllertest.New(t, balanced("one"), balanced("two"))
	cfg := v1beta1.NewDefault()
	cfg.Cloud.Provider, cfg.Cloud.ClusterName, cfg.Controllers.ServiceLB.ConcurrentSyncs = meeting, "mine", ptr.To[int32](2)
	c := must.Get(newController(env.Env, configOf(cfg)))(t)
	env.Start(t)
	env.Run(t, c)
	for range 2 {
		controllertest.Eventually(t, "both workers ask", func() bool { return len(point.clusters) > 0 })
		if cluster := <-point.clusters; cluster != "mine" {
			t.Errorf("the cluster is %q", cluster)
		}
	}
}

// Pins SLB-1 and CLOUD-17.
func TestProviderWithoutLoadBalancersLeavesItIdle(t *testing.T) {
	env := controllertest.New(t, balanced("waiting"))
	cfg := v1beta1.NewDefault()
	cfg.Cloud.Provider = fakecloud.Lacking
	c := must.Get(newController(env.Env, configOf(cfg)))(t)
	env.WantIdleFor(t, c, "the cloud provider does not support external load balancers")
}

const finalizer = "service.kubernetes.io/load-balancer-cleanup"

func balanced(name string, edits ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("uid-of-" + name)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func finalized(s *corev1.Service) { s.Finalizers = []string{finalizer} }
func ofClass(s *corev1.Service)   { s.Spec.LoadBalancerClass = ptr.To("other") }
func internal(s *corev1.Service)  { s.Spec.Type = corev1.ServiceTypeClusterIP }
func deleted(s *corev1.Service)   { s.DeletionTimestamp = &metav1.Time{Time: controllertest.Epoch} }

// heldElsewhere gives a Service the finalizer of another controller.
func heldElsewhere(s *corev1.Service) { s.Finalizers = append(s.Finalizers, "example.com/other") }

// numbers tells Services apart: the provider remembers them for as long as the process runs.
var numbers atomic.Int64

// What an instance does about a Service that it finds: what it asks the provider for, and what it
// writes.
func TestServices(t *testing.T) {
	const ensuring, ensured = "Normal EnsuringLoadBalancer Ensuring load balancer", "Normal EnsuredLoadBalancer Ensured load balancer"
	const gone, none = "Normal DeletedLoadBalancer Deleted load balancer", "Warning UnAvailableLoadBalancer There are no available nodes for LoadBalancer"
	tests := map[string]struct {
		edits  []func(*corev1.Service)
		calls  []string
		writes int
		events []string
	}{
		"SLB-13, SLB-14, SLB-27: one that wants a load balancer":   {nil, []string{"EnsureLoadBalancer"}, 2, []string{ensuring, none, ensured}},
		"SLB-13: one with the finalizer gets no second one":        {[]func(*corev1.Service){finalized}, []string{"EnsureLoadBalancer"}, 1, []string{ensuring, none, ensured}},
		"SLB-6a, SLB-23: one of another class":                     {[]func(*corev1.Service){ofClass, finalized}, nil, 0, nil},
		"SLB-6a: one that wants none":                              {[]func(*corev1.Service){internal}, nil, 0, nil},
		"SLB-12, SLB-21: one that wants none any more":             {[]func(*corev1.Service){internal, finalized}, []string{"GetLoadBalancer"}, 1, []string{gone}},
		"SLB-12: one that is being deleted":                        {[]func(*corev1.Service){deleted, finalized}, []string{"GetLoadBalancer"}, 1, []string{gone}},
		"SLB-23: one of another class that is being deleted":       {[]func(*corev1.Service){ofClass, deleted, finalized}, []string{"GetLoadBalancer"}, 1, []string{gone}},
		"SLB-31: one that is being deleted, without the finalizer": {[]func(*corev1.Service){deleted, heldElsewhere}, nil, 0, nil},
	}
	for name, test := range tests {
		about := fmt.Sprint("service-", numbers.Add(1))
		t.Run(name, func(t *testing.T) {
			cloud := fakecloud.The()
			last := "last-of-" + about
			env := controllertest.New(t, balanced(about, test.edits...))
			c := must.Get(newController(env.Env, configWith(1)))(t)
			env.Start(t)
			stop := env.Run(t, c)
			controllertest.Eventually(t, "the provider was asked, and all is written", func() bool {
				return len(callsOf(about)) >= len(test.calls) && len(env.Writes()) >= test.writes
			})
			// The only worker comes to what is created later when the first one is done.
			env.Store(t, balanced(last))
			var events []string
			controllertest.Eventually(t, "the last one has a load balancer, and the events have arrived", func() bool {
				events = append(events, env.RecordedEvents()...)
				return len(cloud.Calls("EnsureLoadBalancer a/"+last)) == 1 && len(events) >= len(test.events)
			})
			stop()
			if got := callsOf(about); !slices.Equal(got, test.calls) {
				t.Errorf("the provider was asked for %v, want %v", got, test.calls)
			}
			var got []string
			for _, action := range env.Writes() {
				if p, ok := action.(interface{ GetName() string }); ok && p.GetName() == about {
					got = append(got, action.GetVerb()+" "+action.GetSubresource())
				}
			}
			if len(got) != test.writes || slices.ContainsFunc(got, func(w string) bool { return w != "patch status" }) {
				t.Errorf("%v were sent, want %d patches of the status", got, test.writes)
			}
			if !slices.Equal(events[:len(test.events)], test.events) {
				t.Errorf("events are %q, want %q first", events, test.events)
			}
		})
	}
}

// callsOf are the methods that were called for a Service.
func callsOf(name string) []string {
	var methods []string
	for _, call := range fakecloud.The().Calls("") {
		if method, about, _ := strings.Cut(call.What, " "); about == "a/"+name {
			methods = append(methods, method)
		}
	}
	return methods
}

// Nodes that join a young cluster come while its load balancers are being made. The call for the new node finds no load
// balancer yet, and the one that is under way does not know the node. Pins SLB-35.
func TestANodeThatComesWhileALoadBalancerIsMade(t *testing.T) {
	cloud := fakecloud.The()
	cloud.Reset()
	held := cloud.Hold("EnsureLoadBalancer a/growing")
	t.Cleanup(held.Release)
	env := controllertest.New(t, balanced("growing"))
	c := must.Get(newController(env.Env, configWith(1)))(t)
	env.Start(t)
	defer env.Run(t, c)()
	controllertest.Eventually(t, "the load balancer is asked for", func() bool { return len(callsOf("growing")) == 1 })
	env.Store(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "joining"}})
	controllertest.Eventually(t, "the new node is tried, and there is none", func() bool {
		calls := cloud.Calls("GetLoadBalancer a/growing")
		return len(calls) == 1 && calls[0].Ended
	})
	held.Release()
	controllertest.Eventually(t, "the load balancer has the node", func() bool {
		hosts, _ := cloud.Hosts(balanced("growing"))
		return slices.Equal(hosts, []string{"joining"})
	})
}

// A Service is gone when the only worker comes to it. It loses its load balancer if the instance has made
// it, as often as that has to be tried. Pins SLB-10 and SLB-22.
func TestAServiceThatIsGoneLosesItsLoadBalancer(t *testing.T) {
	const deleting = "EnsureLoadBalancerDeleted a/vanishing"
	cloud := fakecloud.The()
	cloud.Reset()
	held := cloud.Hold("EnsureLoadBalancer a/vanishing")
	t.Cleanup(held.Release)
	cloud.Fail(deleting, fmt.Errorf("wrapped: %w", api.NewRetryError("busy", 20*time.Millisecond)))
	env := controllertest.New(t, balanced("vanishing"))
	c := must.Get(newController(env.Env, configWith(1)))(t)
	env.Start(t)
	stop := env.Run(t, c)
	controllertest.Eventually(t, "the load balancer is asked for", func() bool { return len(cloud.Calls("EnsureLoadBalancer a/vanishing")) == 1 })
	env.Store(t, balanced("vanishing", func(s *corev1.Service) { s.Annotations = map[string]string{"a": "reason to work on it"} }))
	if err := env.Client.CoreV1().Services("a").Delete(t.Context(), "vanishing", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	held.Release()
	controllertest.Eventually(t, "the deletion fails, and is tried again", func() bool { return len(cloud.Calls(deleting)) > 1 })
	cloud.Fail(deleting, nil)
	awaitEvents(t, env, "Normal DeletingLoadBalancer Deleting load balancer", "Warning DeleteLoadBalancerFailed Error deleting load balancer: wrapped: busy",
		"Normal DeletedLoadBalancer Deleted load balancer")
	stop()
	if _, ok := cloud.Hosts(balanced("vanishing")); ok {
		t.Error("the load balancer is still there")
	}
}

// A client that replaces a Service takes its finalizers away. Nothing else of the Service changes, and its deletion is
// not told in advance any more.
//
// Pins SLB-30.
func TestAServiceThatLosesItsFinalizer(t *testing.T) {
	begin := func(t *testing.T, name string) *controllertest.Env {
		t.Helper()
		env := controllertest.New(t, balanced(name))
		c := must.Get(newController(env.Env, configWith(1)))(t)
		env.Start(t)
		t.Cleanup(env.Run(t, c))
		awaitEvents(t, env, "Normal EnsuredLoadBalancer Ensured load balancer")
		synctest.Wait() // so that no write of the instance overtakes what the test changes
		return env
	}
	t.Run("SLB-30: it gets the finalizer again", controllertest.InBubble(func(t *testing.T) {
		env := begin(t, "stripped")
		env.Store(t, balanced("stripped"))
		controllertest.Eventually(t, "it has the finalizer", func() bool {
			return slices.Contains(controllertest.MustStored[*corev1.Service](t, env, "a", "stripped").Finalizers, finalizer)
		})
	}))
	t.Run("SLB-30: it loses its load balancer with the deletion", controllertest.InBubble(func(t *testing.T) {
		env := begin(t, "unprotected")
		if err := env.Client.CoreV1().Services("a").Delete(t.Context(), "unprotected", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitEvents(t, env, "Normal DeletedLoadBalancer Deleted load balancer")
		if _, ok := fakecloud.The().Hosts(balanced("unprotected")); ok {
			t.Error("the load balancer is still there")
		}
	}))
	t.Run("SLB-31: it loses its load balancer while another finalizer holds it", controllertest.InBubble(func(t *testing.T) {
		env := begin(t, "held")
		env.Store(t, balanced("held", deleted, heldElsewhere, func(s *corev1.Service) {
			s.Annotations = map[string]string{"a": "reason to work on it"}
		}))
		awaitEvents(t, env, "Normal DeletedLoadBalancer Deleted load balancer")
		if _, ok := fakecloud.The().Hosts(balanced("held")); ok {
			t.Error("the load balancer is still there")
		}
	}))
}

// Nothing would be refused before the load balancer is deleted, and its address is given up with it. Pins SLB-33.
func TestAPausedNamespaceKeepsItsLoadBalancers(t *testing.T) {
	elsewhere := func(s *corev1.Service) { s.Namespace = "b" }
	reason := func(s *corev1.Service) { s.Annotations = map[string]string{"a": "reason to work on it"} }
	fakecloud.The().Reset()
	env := controllertest.New(t, balanced("paused", deleted, finalized), balanced("lost"), balanced("before", elsewhere))
	env.Pauses.Set([]string{"a"})
	c := must.Get(newController(env.Env, configWith(1)))(t)
	env.Start(t)
	env.Run(t, c)
	ensured := func(about string) func() bool {
		return func() bool { return len(fakecloud.The().Calls("EnsureLoadBalancer "+about)) == 1 }
	}
	controllertest.Eventually(t, "the other namespace is not paused", ensured("b/before"))
	// The only worker comes to what is created later when it has come to the others.
	env.Store(t, balanced("after", elsewhere))
	controllertest.Eventually(t, "the others were considered", ensured("b/after"))
	if got := append(callsOf("paused"), callsOf("lost")...); len(got) > 0 {
		t.Errorf("the provider was asked for %v", got)
	}
	env.Pauses.Set(nil)
	env.Store(t, balanced("lost", reason))
	controllertest.Eventually(t, "it goes on after the pause", ensured("a/lost"))
}

// The library keeps the nodes that it has passed to the provider for each Service, also of those that are gone. Pins
// SLB-34.
func TestNodesOfServicesThatAreGoneAreNotKept(t *testing.T) {
	host := func(heartbeat int) *corev1.Node {
		annotations := map[string]string{"heartbeat": strconv.Itoa(heartbeat)}
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "kept", Annotations: annotations}}
	}
	point := &meetingPoint{meet: make(chan struct{}), clusters: make(chan string, 1)}
	met.Store(point)
	env := controllertest.New(t, balanced("leaving"))
	cfg := v1beta1.NewDefault()
	cfg.Cloud.Provider = meeting
	c := must.Get(newController(env.Env, configOf(cfg)))(t)
	env.Start(t)
	env.Run(t, c)
	<-point.meet
	awaitEvents(t, env, "Normal EnsuredLoadBalancer Ensured load balancer")
	// The node comes only now: the library reads the Services of its cache for it without the lock of their worker.
	env.Store(t, host(0))
	awaitEvents(t, env, "Normal UpdatedLoadBalancer Updated load balancer with new hosts")
	node, err := env.Informers.Core().V1().Nodes().Lister().Get("kept")
	if err != nil {
		t.Fatal(err)
	}
	first := weak.Make(node)
	if err := env.Client.CoreV1().Services("a").Delete(t.Context(), "leaving", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitEvents(t, env, "Normal DeletedLoadBalancer Deleted load balancer")
	heartbeats := 0
	controllertest.Eventually(t, "the first state of the node is not kept", func() bool {
		heartbeats++
		env.Store(t, host(heartbeats)) // each time, since a goroutine that waits for the next event may keep the last one
		goruntime.GC()
		return first.Value() == nil
	})
}

// awaitEvents waits for these events, in this order, among others.
func awaitEvents(t *testing.T, env *controllertest.Env, want ...string) {
	t.Helper()
	var got []string
	controllertest.Eventually(t, fmt.Sprintf("the events are %q", want), func() bool {
		got = append(got, env.RecordedEvents()...)
		next := 0
		for _, event := range got {
			if next < len(want) && event == want[next] {
				next++
			}
		}
		return next == len(want)
	})
}

// The nodes of a load balancer cannot be replaced, nor is it known whether there is one: all of it is done
// again. Pins SLB-19.
func TestAFailedUpdateOfHostsIsRetried(t *testing.T) {
	cloud := fakecloud.The()
	cloud.Reset()
	cloud.Fail("UpdateLoadBalancer a/hosted", errors.New("busy"))
	cloud.Fail("GetLoadBalancer a/hosted", errors.New("busy, too"))
	env := controllertest.New(t, balanced("hosted"))
	c := must.Get(newController(env.Env, configWith(1)))(t)
	env.Start(t)
	stop := env.Run(t, c)
	awaitEvents(t, env, "Normal EnsuredLoadBalancer Ensured load balancer")
	env.Store(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "host"}})
	awaitEvents(t, env, "Warning UpdateLoadBalancerFailed Error updating load balancer with new hosts [host] [node names limited, total number of nodes: 1], error: busy",
		"Normal EnsuredLoadBalancer Ensured load balancer")
	stop()
	if hosts, _ := cloud.Hosts(balanced("hosted")); !slices.Equal(hosts, []string{"host"}) {
		t.Errorf("its nodes are %v", hosts)
	}
}

// Pins SLB-9 and SLB-18.
func TestProviderDecidesWhenItIsAskedAgain(t *testing.T) {
	controllertest.InBubble(providerDecidesWhenItIsAskedAgain)(t)
}

func providerDecidesWhenItIsAskedAgain(t *testing.T) {
	cloud := fakecloud.The()
	cloud.Reset()
	about := "EnsureLoadBalancer a/pending"
	cloud.Fail(about, fmt.Errorf("wrapped: %w", api.NewRetryError("not yet", 20*time.Millisecond)))
	cloud.Fail("EnsureLoadBalancer a/refused", errors.New("refused"))
	env := controllertest.New(t, balanced("pending"), balanced("refused"))
	c := must.Get(newController(env.Env, configWith(2)))(t)
	env.Start(t)
	stop := env.Run(t, c)
	controllertest.Eventually(t, "it is asked again and again", func() bool { return len(cloud.Calls(about)) > 5 })
	stop()
	// Five seconds are the least that another failure waits.
	if calls := cloud.Calls("EnsureLoadBalancer a/refused"); len(calls) != 1 {
		t.Errorf("a failure was retried %d times", len(calls)-1)
	}
}

// A resync of the Services has those cleaned up that still show what was cleaned up, without a failure that
// would be tried again. Pins SLB-6 and SLB-28.
func TestServicesAreResynced(t *testing.T) {
	const asking = "GetLoadBalancer a/resynced"
	cloud := fakecloud.The()
	cloud.Reset()
	env := controllertest.New(t, balanced("resynced", internal, finalized), balanced("settled"))
	env.Fake.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.Service{}, nil // and nothing is written
	})
	shared := informers.New(informers.Options{Client: env.Client, Metadata: env.Metadata, Clock: env.Clock})
	shared.Start(t.Context())
	scope := shared.NewScope(informers.ScopeOptions{Name: t.Name()})
	env.Informers = scope
	t.Cleanup(func() {
		scope.Close()
		shared.Shutdown()
	})
	c := must.Get(newController(env.Env, configWith(1)))(t)
	env.Start(t)
	stop := env.Run(t, c)
	defer stop()
	asked := func(about string) int { return len(cloud.Calls(about)) }
	controllertest.Eventually(t, "all is done", func() bool { return asked(asking) == 1 && asked("EnsureLoadBalancer a/settled") == 1 })
	controllertest.Eventually(t, "it is cleaned up again", func() bool {
		env.Clock.Step(30 * time.Second) // each time, since the resync may not be waited for yet
		return asked(asking) > 1
	})
	if asked("EnsureLoadBalancer a/settled") != 1 {
		t.Error("a Service that needs nothing was worked on")
	}
}
