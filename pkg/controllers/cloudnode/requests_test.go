package cloudnode

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/fake"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/must"
)

// world is a controller that has made its first round, without nodes, and waits for the next.
type world struct {
	*controllertest.Env
	name  string // of the node
	asked int    // how often the provider was asked about it before, in another run of the test
	stop  func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cfg := v1beta1.NewDefault()
	cfg.Cloud.Provider = fakecloud.Name
	w := &world{Env: controllertest.New(t), name: strings.ReplaceAll(t.Name(), "/", "-")} // names of keys have no slash
	w.asked = asked(w.name)
	w.CompleteWrites("nodes")
	w.CheckWrites("nodes")
	c := must.Get(newController(w.Env.Env, configOf(cfg)))(t)
	w.Start(t)
	w.stop = w.Run(t, c)
	w.awaitRound(t)
	return w
}

// awaitRound waits until a round is over.
func (w *world) awaitRound(t *testing.T) {
	t.Helper()
	controllertest.Eventually(t, "the next round is waited for", w.Clock.HasWaiters)
}

// round has a round made.
func (w *world) round(t *testing.T) {
	t.Helper()
	w.Clock.Step(5 * time.Minute)
	w.awaitRound(t)
}

// settle waits until everything is done that the nodes so far gave a reason to: there is one
// worker, which initializes a later node after them.
func (w *world) settle(t *testing.T) {
	t.Helper()
	later := w.name + "-later-" + w.NextVersion()
	w.Store(t, uninitialized(later))
	w.awaitInitialized(t, later)
}

func (w *world) awaitInitialized(t *testing.T, name string) {
	t.Helper()
	var seen []string
	controllertest.Eventually(t, name+" is initialized", func() bool {
		seen = append(seen, w.RecordedEvents()...)
		return len(controllertest.MustStored[*corev1.Node](t, w.Env, "", name).Status.Addresses) > 0 && len(seen) > 0
	})
}

// sent takes the calls of the provider and the requests about the node.
func (w *world) sent() []string {
	all := slices.Repeat([]string{"InstanceMetadata"}, asked(w.name)-w.asked)
	for _, request := range w.Requests() {
		if what, ok := strings.CutSuffix(request, " "+w.name); ok {
			all = append(all, what)
		}
	}
	return all
}

// asked returns how often the provider was asked about a node.
func asked(name string) int {
	what := "InstanceMetadata " + name
	calls := fakecloud.The().Calls(what)
	return len(slices.DeleteFunc(calls, func(call fakecloud.Call) bool { return call.What != what }))
}

func uninitialized(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Effect: corev1.TaintEffectNoSchedule}}},
	}
}

// initialized makes a node as the cloud has it.
func initialized(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: fakecloud.InternalIP}, {Type: corev1.NodeHostName, Address: name},
		}},
	}
}

// dualStack gives an instance, and a node that shows it, a second internal address.
func dualStack(addresses []corev1.NodeAddress) []corev1.NodeAddress {
	return append(addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "2001:db8::10"})
}

// The provider is asked about a node, and answers when that is gone and another one has its name: the answer is not
// about that one, whose provider ID could never be changed.
//
// Pins CNODE-31.
func TestANodeThatIsMadeAnewIsAskedAboutAgain(t *testing.T) {
	fakecloud.The().Reset()
	w := newWorld(t)
	defer w.stop()
	held := fakecloud.The().Hold("InstanceMetadata " + w.name)
	t.Cleanup(held.Release)
	node, again := uninitialized(w.name), uninitialized(w.name)
	node.UID, again.UID = "old", "new"
	w.Store(t, node)
	controllertest.Eventually(t, "the provider is asked", func() bool {
		return len(fakecloud.The().Calls("InstanceMetadata "+w.name)) > 0
	})
	w.Remove(t, node)
	w.Store(t, again)
	controllertest.Eventually(t, "the cache shows the other node", func() bool {
		cached, found, err := w.CacheOf(t, node).GetByKey(w.name)
		return err == nil && found && cached.(*corev1.Node).UID == "new"
	})
	answers := 0 // before the first write; what follows it may begin before the cache shows it
	w.Intercept("update nodes "+w.name, func(clienttesting.Action) error {
		if answers == 0 {
			answers = asked(w.name)
		}
		return nil
	})
	held.Release()
	w.awaitInitialized(t, w.name)
	w.stop()
	if answers != 2 {
		t.Errorf("it is initialized with answer %d", answers)
	}
}

// formerly is the name of the provider of formerCloud.
const formerly = "formerly"

// formerCloud is a provider with instances of the former form. It reports each request for the ID of one, and answers
// with what the test sends.
type formerCloud struct {
	fake.Cloud
	asks    chan struct{}
	answers chan string
}

// Instances implements cloudprovider.Interface.
func (f *formerCloud) Instances() (cloudprovider.Instances, bool) { return f, true }

// InstanceID implements cloudprovider.Instances.
func (f *formerCloud) InstanceID(context.Context, types.NodeName) (string, error) {
	f.asks <- struct{}{}
	return <-f.answers, nil
}

// former is what the providers called formerly are. A test makes a new one.
var former atomic.Pointer[formerCloud]

func TestMain(m *testing.M) {
	cloudprovider.RegisterCloudProvider(formerly, func(io.Reader) (cloudprovider.Interface, error) { return former.Load(), nil })
	os.Exit(m.Run())
}

// A node that is deleted and created again, while a provider of the former form answers, gets the answer for the new one.
// Pins CNODE-35.
func TestANodeThatIsMadeAnewIsAskedAboutAgainInTheFormerForm(t *testing.T) {
	node, again := uninitialized("anew"), uninitialized("anew")
	node.UID, again.UID = "old", "new"
	cloud := &formerCloud{asks: make(chan struct{}, 1), answers: make(chan string, 2)}
	former.Store(cloud)
	env := controllertest.New(t, node)
	cfg := v1beta1.NewDefault()
	cfg.Cloud.Provider = formerly
	c := must.Get(newController(env.Env, configOf(cfg)))(t)
	env.Start(t)
	t.Cleanup(env.Run(t, c))
	controllertest.Eventually(t, "the provider is asked", func() bool { return len(cloud.asks) > 0 })
	<-cloud.asks
	env.Remove(t, node)
	env.Store(t, again)
	controllertest.Eventually(t, "the cache shows the other node", func() bool {
		cached, found, err := env.CacheOf(t, node).GetByKey("anew")
		return err == nil && found && cached.(*corev1.Node).UID == "new"
	})
	cloud.answers <- "of-old"
	cloud.answers <- "of-new"
	stored := func() *corev1.Node { return controllertest.MustStored[*corev1.Node](t, env, "", "anew") }
	controllertest.Eventually(t, "the node is initialized", func() bool { return len(stored().Spec.Taints) == 0 })
	if id := stored().Spec.ProviderID; id != "fake://of-new" {
		t.Errorf("its provider ID is %s", id)
	}
}

func TestRequestsForANode(t *testing.T) {
	heartbeat := func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Time{Time: controllertest.Epoch}}}
	}
	tests := map[string]struct {
		node     func(name string) *corev1.Node
		instance func(*cloudprovider.InstanceMetadata)
		changes  []func(*corev1.Node)
		rounds   int
		want     []string
	}{
		"CNODE-28: one that is initialized": {node: uninitialized, want: []string{"InstanceMetadata", "update nodes", "patch nodes/status"}},
		"CNODE-28: each round asks once about a node that stays the same": {
			node: initialized, rounds: 2, want: []string{"InstanceMetadata", "InstanceMetadata"},
		},
		"CNODE-24: heartbeats": {node: initialized, changes: []func(*corev1.Node){heartbeat, heartbeat}},
		"CNODE-19: two addresses of one type are written in every round": {
			node: func(name string) *corev1.Node {
				n := initialized(name)
				n.Status.Addresses = dualStack(n.Status.Addresses)
				return n
			},
			instance: func(m *cloudprovider.InstanceMetadata) { m.NodeAddresses = dualStack(m.NodeAddresses) },
			rounds:   2,
			want:     []string{"InstanceMetadata", "InstanceMetadata", "patch nodes/status", "patch nodes/status"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			fakecloud.The().Shape(w.name, test.instance)
			w.Store(t, test.node(w.name))
			for _, change := range test.changes {
				controllertest.Change(t, w.Env, "", w.name, change)
			}
			w.settle(t)
			for range test.rounds {
				w.round(t)
			}
			if got := w.sent(); !slices.Equal(got, test.want) {
				t.Errorf("sent were %q, want %q", got, test.want)
			}
		})
	}
}

// Additional labels are those of an instance that Kubernetes knows nothing about.
func TestAdditionalLabels(t *testing.T) {
	for name, test := range map[string]struct {
		node func(name string) *corev1.Node
		want bool
	}{
		"CNODE-22: of a node that is initialized now":            {uninitialized, true},
		"CNODE-22: of a node that was initialized, in any round": {initialized, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			labels := map[string]string{"cloud.example.com/rack": "7"}
			fakecloud.The().Shape(w.name, func(m *cloudprovider.InstanceMetadata) {
				m.AdditionalLabels = labels
				m.NodeAddresses = m.NodeAddresses[:1] // so that a round writes something
			})
			w.Store(t, test.node(w.name))
			w.settle(t)
			w.round(t)
			got := controllertest.MustStored[*corev1.Node](t, w.Env, "", w.name).Labels
			if has := got["cloud.example.com/rack"] == "7"; has != test.want {
				t.Errorf("labels are %v", slices.Sorted(maps.Keys(got)))
			}
		})
	}
}

// A conflict is tried again with what the cache has by then, and the cloud is not asked again
// before the tries are used up.
func TestConflicts(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("nodes"), "", errors.New("the object has been modified"))
	tests := map[string]struct {
		conflicts int
		asked     int
		least     time.Duration
	}{
		"CNODE-18, CNODE-20: 19 conflicts":                       {19, 1, 19 * 50 * time.Millisecond},
		"CNODE-18, CNODE-20: 20 are all, and the node is queued": {20, 2, 19 * 50 * time.Millisecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.RefuseIf("update nodes "+w.name, conflict, func(n int) bool { return n <= test.conflicts })
			began := time.Now()
			w.Store(t, uninitialized(w.name))
			w.awaitInitialized(t, w.name)
			took, asked, updates := time.Since(began), 0, 0
			for _, what := range w.sent() {
				switch what {
				case "InstanceMetadata":
					asked++
				case "update nodes":
					updates++
				}
			}
			if asked != test.asked || updates != test.conflicts+1 {
				t.Errorf("the cloud was asked %d times, and there were %d updates", asked, updates)
			}
			if took < test.least {
				t.Errorf("it took %v, want at least %v", took, test.least)
			}
		})
	}
}

// Pins CNODE-20.
func TestConflictIsTriedAgainWithTheNodeOfTheCache(t *testing.T) {
	w := newWorld(t)
	changed := false
	w.Intercept("update nodes "+w.name, func(action clienttesting.Action) error {
		if !changed {
			labelled := uninitialized(w.name)
			labelled.Labels, labelled.ResourceVersion = map[string]string{"a": "b"}, w.NextVersion()
			if err := w.Fake.Tracker().Update(action.GetResource(), labelled, ""); err != nil {
				t.Error(err)
			}
		}
		changed = true
		return nil
	})
	w.Store(t, uninitialized(w.name))
	w.awaitInitialized(t, w.name)
	got := controllertest.MustStored[*corev1.Node](t, w.Env, "", w.name)
	if got.Labels["a"] != "b" || got.Spec.ProviderID == "" {
		t.Errorf("labels are %v, the provider ID is %q", got.Labels, got.Spec.ProviderID)
	}
}

// Labels are read afresh before each of the tries.
// Pins CNODE-18.
func TestLabelsAreTriedFiveTimes(t *testing.T) {
	w := newWorld(t)
	conflict := apierrors.NewConflict(corev1.Resource("nodes"), "", errors.New("the object has been modified"))
	var tries []time.Time
	w.Intercept("get nodes "+w.name, func(clienttesting.Action) error {
		if tries = append(tries, time.Now()); len(tries) > 5 {
			return nil
		}
		return conflict
	})
	node := initialized(w.name)
	node.Labels = map[string]string{corev1.LabelFailureDomainBetaZone: "a"}
	w.Store(t, node)
	w.settle(t)
	controllertest.Eventually(t, "the label is there", func() bool {
		return controllertest.MustStored[*corev1.Node](t, w.Env, "", w.name).Labels[corev1.LabelTopologyZone] == "a"
	})
	w.stop()
	if len(tries) != 6 {
		t.Fatalf("%d tries", len(tries))
	}
	for i := range 4 {
		if pause := tries[i+1].Sub(tries[i]); pause < 100*time.Millisecond {
			t.Errorf("a pause of %v", pause)
		}
	}
}

// A node whose initialization is not written in time is not reported as synced, and is initialized with the next
// attempt. Pins CNODE-32.
func TestAnInitializationThatTimesOutIsRepeated(t *testing.T) {
	w := newWorld(t)
	timeout := &url.Error{Op: "Put", URL: "https://server", Err: context.DeadlineExceeded}
	w.RefuseIf("update nodes "+w.name, timeout, func(n int) bool { return n == 1 })
	w.Store(t, uninitialized(w.name))
	w.awaitInitialized(t, w.name)
	if node := controllertest.MustStored[*corev1.Node](t, w.Env, "", w.name); len(node.Spec.Taints) > 0 {
		t.Errorf("the taints are %v", node.Spec.Taints)
	}
}
