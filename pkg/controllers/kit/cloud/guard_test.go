package cloud

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/fake"
	testclock "k8s.io/utils/clock/testing"

	"kcmd.dev/test/controllertest"
)

// world is a guard whose stop and end a test decides.
type world struct {
	*guard
	stop, end func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	working, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	stopping := make(chan struct{})
	g := &guard{
		stopping: stopping, working: working, record: newCalls(testclock.NewFakeClock(controllertest.Epoch)),
		processed: processed{clock: testclock.NewFakePassiveClock(controllertest.Epoch)},
		nodes:     corelisters.NewNodeLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)),
	}
	g.hosts = newHosts(g.nodes, nil, testclock.NewFakeClock(controllertest.Epoch))
	return &world{g, sync.OnceFunc(func() { close(stopping) }), end}
}

var errFake = errors.New("a fake failure")

// balancing is a provider of which the test decides what asking for a load balancer does.
type balancing struct {
	fake.Cloud
	ensure func(context.Context) error
}

func (b *balancing) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return b, true }

func (b *balancing) EnsureLoadBalancer(ctx context.Context, _ string, _ *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return nil, b.ensure(ctx)
}

func ensure(ctx context.Context, w *world, f func(context.Context) error) error {
	balancer, _ := guarded{&balancing{ensure: f}, w.guard}.LoadBalancer()
	_, err := balancer.EnsureLoadBalancer(ctx, "", &corev1.Service{}, nil)
	return err
}

type key struct{}

func TestCallsOfTheProvider(t *testing.T) {
	tests := map[string]struct {
		prepare func(*world)
		call    func(context.Context) error
		want    string
	}{
		"an error stays what it is": {
			call: func(context.Context) error { return cloudprovider.ImplementedElsewhere },
			want: cloudprovider.ImplementedElsewhere.Error(),
		},
		"CLOUD-41: a call goes on after the stop": {
			prepare: func(w *world) { w.stop() },
			call:    func(ctx context.Context) error { return ctx.Err() },
		},
		"a call sees the values of the library": {
			call: func(ctx context.Context) error {
				if ctx.Value(key{}) != "value" {
					return errFake
				}
				return nil
			},
		},
		"CLOUD-43: a panic is an error": {
			call: func(context.Context) error { panic("out of order") },
			want: "the cloud provider panicked: out of order",
		},
		"nothing is called after the end": {
			prepare: func(w *world) { w.end() },
			call:    func(context.Context) error { panic("called") },
			want:    errEnded.Error(),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if test.prepare != nil {
				test.prepare(w)
			}
			ended, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
			cancel() // as the library's context after the stop
			err := ensure(ended, w, test.call)
			if got := text(err); got != test.want {
				t.Errorf("the error is %q, want %q", got, test.want)
			}
			if err != nil && test.want == cloudprovider.ImplementedElsewhere.Error() && err != cloudprovider.ImplementedElsewhere { //nolint:errorlint // the library compares it
				t.Error("the error is another one")
			}
			if len(w.record.Inspect().InFlight) > 0 {
				t.Error("the call is still shown")
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Pins CLOUD-41.
func TestFencedInstanceCancelsItsCalls(t *testing.T) {
	w := newWorld(t)
	err := ensure(context.Background(), w, func(ctx context.Context) error {
		if got := w.record.Inspect().InFlight; len(got) != 1 || !strings.HasPrefix(got[0].Key, "EnsureLoadBalancer ") {
			t.Errorf("in flight are %v", got)
		}
		w.end()
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

// A stop ends a goroutine of the library where it would begin a unit of work, and not in the
// middle of one.
// Pins CNLC-20.
func TestStopBeginsNothing(t *testing.T) {
	env := controllertest.New(t)
	w := newWorld(t)
	w.stop()
	cloud := guarded{&fake.Cloud{EnableInstancesV2: true}, w.guard}
	session := &Session{Env: env.Env, Client: newClient(env.Env, w.guard), guard: w.guard}
	v2, _ := cloud.InstancesV2()
	former, _ := cloud.Instances()
	routes, _ := cloud.Routes()
	ctx, node := t.Context(), &corev1.Node{}
	tests := map[string]struct {
		call   func()
		begins bool
	}{
		"a Service is read":                   {func() { _, _ = session.Services().Lister().Services("a").Get("b") }, true},
		"a node is read":                      {func() { _, _ = session.NodesInRounds(nil).Lister().Get("a") }, true},
		"routes are listed":                   {func() { _, _ = routes.ListRoutes(ctx, "") }, true},
		"whether an instance exists":          {func() { _, _ = v2.InstanceExists(ctx, node) }, true},
		"its metadata":                        {func() { _, _ = v2.InstanceMetadata(ctx, node) }, true},
		"whether it exists, by its former ID": {func() { _, _ = former.InstanceExistsByProviderID(ctx, "a") }, true},
		"whether it is shut down":             {func() { _, _ = v2.InstanceShutdown(ctx, node) }, false},
		"a route is deleted":                  {func() { _ = routes.DeleteRoute(ctx, "", &cloudprovider.Route{}) }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			returned := false
			var ended sync.WaitGroup
			ended.Go(func() {
				test.call()
				returned = true
			})
			ended.Wait()
			if returned == test.begins {
				t.Errorf("the call returned: %t", returned)
			}
		})
	}
}

// The library reads what is nil.
func TestMetadataThatTheProviderLacks(t *testing.T) {
	none := func(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) { return nil, nil }
	taint := []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
	tests := map[string]struct {
		taints []corev1.Taint
		want   string
	}{
		"CNODE-21: a node that is not initialized stays so":     {taint, ""},
		"CNODE-23: of one that is initialized, it is a failure": {nil, "the cloud provider has no metadata of node a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v2, _ := guarded{&fake.Cloud{EnableInstancesV2: true, OverrideInstanceMetadata: none}, newWorld(t).guard}.InstancesV2()
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.NodeSpec{Taints: test.taints}}
			metadata, err := v2.InstanceMetadata(t.Context(), node)
			if metadata != nil || text(err) != test.want {
				t.Errorf("the answer is %v, %v", metadata, err)
			}
		})
	}
}

// In a round the provider is asked for the addresses of nodes, and answers about one when that is gone, and another one
// may have its name.
func TestAnAnswerAboutANodeThatIsGoneByThen(t *testing.T) {
	old := nodeOf("a", "old")
	uninitialized := old.DeepCopy()
	uninitialized.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
	for name, tc := range map[string]struct {
		asked, cached *corev1.Node
		want          string
	}{
		"CNODE-33: it is there":                  {old, old, ""},
		"CNODE-33: another one has its name":     {old, nodeOf("a", "new"), "node a was recreated since the cloud provider was asked about it"},
		"CNODE-33: it is gone":                   {old, nodeOf("b", "old"), "node a was deleted since the cloud provider was asked about it"},
		"CNODE-33: not in a round, see CNODE-31": {uninitialized, nodeOf("a", "new"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			env, w := controllertest.New(t), newWorld(t)
			env.Cache(t, tc.cached)
			w.nodes = env.Informers.Core().V1().Nodes().Lister()
			answer := func(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
				return &cloudprovider.InstanceMetadata{}, nil
			}
			v2, _ := guarded{&fake.Cloud{EnableInstancesV2: true, OverrideInstanceMetadata: answer}, w.guard}.InstancesV2()
			metadata, err := v2.InstanceMetadata(t.Context(), tc.asked)
			if text(err) != tc.want || (metadata == nil) != (tc.want != "") {
				t.Errorf("the answer is %v, %v", metadata, err)
			}
		})
	}
}

// The deletion of a node is not told to whoever works on keys. Nodes that are never initialized would be remembered for
// good.
func TestNodesThatStayUninitializedAreNotRemembered(t *testing.T) {
	for name, err := range map[string]error{"not the provider's": nil, "a failure": errFake} {
		t.Run(name, func(t *testing.T) {
			none := func(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) { return nil, err }
			w := newWorld(t)
			v2, _ := guarded{&fake.Cloud{EnableInstancesV2: true, OverrideInstanceMetadata: none}, w.guard}.InstancesV2()
			node := nodeOf("a", "1")
			node.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
			_, _ = v2.InstanceMetadata(t.Context(), node)
			if w.asked.another(nodeOf("a", "2")) {
				t.Error("the node is remembered")
			}
		})
	}
}

// The library reads each route that is listed.
// Pins CLOUD-43.
func TestRouteWithoutContent(t *testing.T) {
	routes, _ := guarded{&listing{}, newWorld(t).guard}.Routes()
	if listed, err := routes.ListRoutes(t.Context(), ""); !errors.Is(err, errNoRoute) || len(listed) > 0 {
		t.Errorf("the answer is %v, %v", listed, err)
	}
}

// listing is a provider that lists a route, and another one that is nil.
type listing struct{ fake.Cloud }

func (l *listing) Routes() (cloudprovider.Routes, bool) { return l, true }

func (*listing) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	return []*cloudprovider.Route{{}, nil}, nil
}

func (*listing) CreateRoute(context.Context, string, string, *cloudprovider.Route) error {
	return errFake
}
func (*listing) DeleteRoute(context.Context, string, *cloudprovider.Route) error { return errFake }

// The library takes an interface that is not nil for an implementation.
// Pins CLOUD-7.
func TestProviderWithoutInstancesV2HasNone(t *testing.T) {
	if v2, ok := (guarded{&fake.Cloud{}, newWorld(t).guard}).InstancesV2(); v2 != nil || ok {
		t.Errorf("it has %v, %t", v2, ok)
	}
}
