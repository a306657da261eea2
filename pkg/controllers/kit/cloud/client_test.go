package cloud

import (
	"context"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	nodehelpers "k8s.io/cloud-provider/node/helpers"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	nodeutil "k8s.io/component-helpers/node/util"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func nodeOf(name string, uid types.UID) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, ResourceVersion: "1"}}
}

// A node is deleted by the UID of the one that the cloud was asked about, and only while it is as it was then.
func TestDeletionMeetsTheNodeThatWasJudged(t *testing.T) {
	judged, is := nodeOf("a", "old"), func(change func(*corev1.Node)) *corev1.Node {
		n := nodeOf("a", "old")
		n.ResourceVersion = "7"
		change(n)
		return n
	}
	unchanged := is(func(*corev1.Node) {})
	for name, tc := range map[string]struct {
		stored  *corev1.Node
		fails   error
		deleted bool
	}{
		"CNLC-16: as it was":            {stored: unchanged, deleted: true},
		"CNLC-16: recreated":            {stored: nodeOf("a", "new")},
		"CNLC-25: ready by now":         {stored: is(func(n *corev1.Node) { n.Status.Conditions = readyNow })},
		"CNLC-25: with a provider ID":   {stored: is(func(n *corev1.Node) { n.Spec.ProviderID = "fake://a" })},
		"CNLC-25: it cannot be read":    {stored: unchanged, fails: apierrors.NewInternalError(errFake)},
		"CNLC-25: it is gone meanwhile": {stored: nodeOf("b", "other")},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t, tc.stored)
			if tc.fails != nil {
				env.Refuse("get nodes a", tc.fails)
			}
			client := newClient(env.Env, newWorld(t).guard)
			session := &Session{Client: client}
			session.Judged([]*corev1.Node{nodeOf("b", "other"), judged})
			err := client.CoreV1().Nodes().Delete(t.Context(), "a", metav1.DeleteOptions{})
			if (err == nil) != tc.deleted || (len(env.Writes()) == 1) != tc.deleted {
				t.Fatalf("%v was sent, %v", env.Writes(), err)
			}
			if !tc.deleted {
				return
			}
			sent, ok := env.Writes()[0].(clienttesting.DeleteAction)
			if !ok {
				t.Fatalf("%T was sent", env.Writes()[0])
			}
			p := sent.GetDeleteOptions().Preconditions
			if p == nil || p.UID == nil || *p.UID != "old" || p.ResourceVersion == nil || *p.ResourceVersion != "7" {
				t.Errorf("the preconditions are %+v", p)
			}
		})
	}
}

// The addresses are those of the node in the cache, which may be behind. Pins CNODE-33.
func TestAddressesAreWrittenToTheNodeOfTheCache(t *testing.T) {
	cached := nodeOf("a", "old")
	cached.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	patched := cached.DeepCopy()
	patched.Status.Addresses[0].Address = "10.0.0.2"
	write := func(t *testing.T, env *controllertest.Env) error {
		t.Helper()
		w := newWorld(t)
		w.nodes = env.Informers.Core().V1().Nodes().Lister()
		_, _, err := nodeutil.PatchNodeStatus(newClient(env.Env, w.guard).CoreV1(), "a", cached, patched)
		return err
	}
	t.Run("it carries its UID", func(t *testing.T) {
		env := controllertest.New(t, cached)
		env.Cache(t, cached)
		must.Succeed(t, write(t, env))
		sent, ok := env.Writes()[0].(clienttesting.PatchAction)
		const want = `{"metadata":{"uid":"old"},"status":{"addresses":` +
			`[{"address":"10.0.0.2","type":"InternalIP"},{"$patch":"replace"}]}}`
		if !ok || string(sent.GetPatch()) != want {
			t.Errorf("%v was sent, %s", env.Writes()[0], sent.GetPatch())
		}
	})
	t.Run("it is gone", func(t *testing.T) {
		env := controllertest.New(t, nodeOf("a", "new"))
		if err := write(t, env); err == nil || len(env.Writes()) > 0 {
			t.Errorf("%v was sent, %v", env.Writes(), err)
		}
	})
}

// The labels that the cache shows may be those of an earlier node of the name. Pins CNODE-34.
func TestLabelsAreWrittenToTheNodeOfTheCache(t *testing.T) {
	env, w := controllertest.New(t, nodeOf("a", "new")), newWorld(t)
	env.Cache(t, nodeOf("a", "old"))
	w.nodes = env.Informers.Core().V1().Nodes().Lister()
	nodehelpers.AddOrUpdateLabelsOnNode(newClient(env.Env, w.guard), map[string]string{"a": "b"}, nodeOf("a", "old"))
	sent, ok := env.Writes()[0].(clienttesting.PatchAction)
	const want = `{"metadata":{"labels":{"a":"b"},"uid":"old"}}` // which an API server refuses
	if !ok || string(sent.GetPatch()) != want {
		t.Errorf("%v was sent, %s", env.Writes()[0], sent.GetPatch())
	}
}

// The node that the labels were taken from is gone, and another one may have its name. The patch would not say which
// one it is for. Pins CNODE-34.
func TestLabelsAreNotWrittenWithoutANodeInTheCache(t *testing.T) {
	env, w := controllertest.New(t, nodeOf("a", "new")), newWorld(t)
	client := newClient(env.Env, w.guard)
	written := nodehelpers.AddOrUpdateLabelsOnNode(client, map[string]string{"a": "b"}, nodeOf("a", "old"))
	if sent := env.Writes(); written || len(sent) > 0 {
		t.Errorf("%v was sent, and passed for written: %t", sent, written)
	}
}

// A patch with a resource version is for the node that was read, whatever the cache shows. Pins CNODE-34.
func TestPatchesWithoutANodeInTheCache(t *testing.T) {
	for name, tc := range map[string]struct {
		patch        string
		subresources []string
		sent         bool
	}{
		"with a resource version":       {`{"metadata":{"resourceVersion":"1"},"spec":{}}`, nil, true},
		"with an empty one":             {`{"metadata":{"resourceVersion":""},"spec":{}}`, nil, false},
		"of metadata without one":       {`{"metadata":{"labels":{"resourceVersion":"1"}}}`, nil, false},
		"of the specification":          {`{"spec":{}}`, nil, false},
		"of the status":                 {`{"status":{}}`, []string{"status"}, false},
		"of the status, with a version": {`{"metadata":{"resourceVersion":"1"},"status":{}}`, []string{"status"}, true},
		"that cannot be read":           {`[]`, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t, nodeOf("a", "uid"))
			nodes := newClient(env.Env, newWorld(t).guard).CoreV1().Nodes()
			_, err := nodes.Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(tc.patch), metav1.PatchOptions{}, tc.subresources...)
			if sent := len(env.Writes()) == 1; sent != tc.sent || (err == nil) != tc.sent {
				t.Errorf("it was sent: %t, want %t, %v", sent, tc.sent, err)
			}
		})
	}
}

// A round that makes routes for many nodes may take minutes. Pins ROUTE-34.
func TestAConditionIsWrittenToTheNodeOfTheRound(t *testing.T) {
	for name, tc := range map[string]struct {
		judged []*corev1.Node
		want   string
	}{
		"a node of the round": {
			[]*corev1.Node{nodeOf("b", "other"), nodeOf("a", "old")}, `{"metadata":{"uid":"old"},"status":`,
		},
		"there are no rounds": {nil, `{"status":`},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t, nodeOf("a", "old"))
			session := &Session{Client: newClient(env.Env, newWorld(t).guard)}
			if tc.judged != nil {
				session.Judged(tc.judged)
			}
			condition := corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable}
			must.Succeed(t, nodeutil.SetNodeCondition(session.Client, "a", condition))
			sent, ok := env.Writes()[0].(clienttesting.PatchAction)
			if !ok || !strings.HasPrefix(string(sent.GetPatch()), tc.want) {
				t.Errorf("%v was sent, %s", env.Writes()[0], sent.GetPatch())
			}
		})
	}
}

var readyNow = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}

// The taint is for a node that is not ready, and is removed from one that is. In a long round that may change.
// Pins CNLC-25.
func TestTheShutdownTaintFollowsTheNodeAsItIs(t *testing.T) {
	taint := &corev1.Taint{Key: "shutdown", Effect: corev1.TaintEffectNoSchedule}
	down, up := nodeOf("a", "uid"), nodeOf("a", "uid")
	up.Status.Conditions = readyNow
	tainted := up.DeepCopy()
	tainted.Spec.Taints = []corev1.Taint{*taint}
	taintedAndDown := down.DeepCopy()
	taintedAndDown.Spec.Taints = tainted.Spec.Taints

	for name, tc := range map[string]struct {
		judged, is *corev1.Node
		written    bool
	}{
		"down, and still is":     {down, down, true},
		"down, and ready by now": {down, up, false},
		"ready, and still is":    {tainted, tainted, true},
		"ready, and down by now": {tainted, taintedAndDown, false},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t, tc.is)
			session := &Session{Client: newClient(env.Env, newWorld(t).guard)}
			session.Judged([]*corev1.Node{tc.judged})
			change := nodehelpers.AddOrUpdateTaintOnNode
			if len(tc.judged.Spec.Taints) > 0 {
				change = func(c kubernetes.Interface, name string, taints ...*corev1.Taint) error {
					return nodehelpers.RemoveTaintOffNode(c, name, tc.judged, taints...)
				}
			}
			err := change(session.Client, "a", taint)
			if written := len(env.Writes()) == 1; written != tc.written || (err == nil) != tc.written {
				t.Errorf("it was written: %t, want %t, %v", written, tc.written, err)
			}
		})
	}
}

// The library reads a node by its name again to taint it because the provider said that it is shut down, and to remove
// the taint because the cache showed it Ready. Pins CNLC-24.
func TestANodeIsNotTaintedForAnEarlierOneOfItsName(t *testing.T) {
	for name, tc := range map[string]struct {
		judged  []*corev1.Node
		written bool
	}{
		"the provider was asked about it":   {[]*corev1.Node{nodeOf("b", "other"), nodeOf("a", "new")}, true},
		"it was asked about an earlier one": {[]*corev1.Node{nodeOf("b", "other"), nodeOf("a", "old")}, false},
		"it was asked about other nodes":    {[]*corev1.Node{nodeOf("b", "old")}, true},
		"there are no rounds":               {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t, nodeOf("a", "new"))
			session := &Session{Client: newClient(env.Env, newWorld(t).guard)}
			if tc.judged != nil {
				session.Judged(tc.judged)
			}
			taint := &corev1.Taint{Key: "shutdown", Effect: corev1.TaintEffectNoSchedule}
			err := nodehelpers.AddOrUpdateTaintOnNode(session.Client, "a", taint)
			if tainted := len(env.Writes()) == 1; tainted != tc.written || (err == nil) != tc.written {
				t.Errorf("it was tainted: %t, want %t, %v", tainted, tc.written, err)
			}

			tainted := nodeOf("a", "new")
			tainted.Spec.Taints = []corev1.Taint{*taint}
			env.Store(t, tainted)
			env.Requests()
			err = nodehelpers.RemoveTaintOffNode(session.Client, "a", tainted, taint)
			if freed := len(env.Writes()) == 1; freed != tc.written || (err == nil) != tc.written {
				t.Errorf("the taint was removed: %t, want %t, %v", freed, tc.written, err)
			}
		})
	}
}

// The library takes a Service that its cache lacks for gone, and deletes the load balancer. Pins SLB-32.
func TestAServiceIsGoneByTheAPIServer(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "uid"}}
	other := service.DeepCopy()
	other.UID = "another"
	finished := service.DeepCopy()
	finished.DeletionTimestamp, finished.Finalizers = &metav1.Time{Time: controllertest.Epoch}, []string{"example.com/other"}
	unavailable := apierrors.NewInternalError(errFake)
	proxied := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", corev1.Resource("services"), "b",
		"404 page not found", 0, true)
	for name, test := range map[string]struct {
		stored, cached *corev1.Service
		fails          error
		gone, failed   bool
	}{
		"it is cached":                  {stored: service, cached: service},
		"it is gone":                    {gone: true},
		"the cache is late":             {stored: service, failed: true},
		"it was made anew":              {stored: other, failed: true},
		"it has lost its load balancer": {stored: finished, gone: true},
		"no answer":                     {fails: unavailable, failed: true},
		"an answer of a proxy":          {fails: proxied, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t)
			if test.stored != nil {
				env.Store(t, test.stored)
				env.Uncache(t, test.stored)
			}
			if test.cached != nil {
				env.Cache(t, test.cached)
			}
			if test.fails != nil {
				env.Refuse("get services", test.fails)
			}
			guard := newWorld(t).guard
			session := &Session{Env: env.Env, Client: newClient(env.Env, guard), guard: guard}
			got, err := session.Services().Lister().Services("a").Get("b")
			gone := apierrors.IsNotFound(err)
			if gone != test.gone || (err != nil && !gone) != test.failed || err == nil && got.UID != "uid" {
				t.Errorf("it got %v, %v", got, err)
			}
		})
	}
}

// Events of the library take the way of all events, and send nothing themselves. One that is
// counted up is passed on again.
func TestEventsArePassedOn(t *testing.T) {
	env := controllertest.New(t)
	client := newClient(env.Env, newWorld(t).guard)
	events := client.CoreV1().Events("")
	event := &corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "a"}, Type: "Normal", Reason: "Reason", Message: "message"}
	for _, send := range []func() (*corev1.Event, error){
		func() (*corev1.Event, error) { return events.CreateWithEventNamespace(event) },     //nolint:staticcheck // what the library calls
		func() (*corev1.Event, error) { return events.UpdateWithEventNamespace(event) },     //nolint:staticcheck // what the library calls
		func() (*corev1.Event, error) { return events.PatchWithEventNamespace(event, nil) }, //nolint:staticcheck // what the library calls
	} {
		if _, err := send(); err != nil {
			t.Fatal(err)
		}
	}
	env.WantEvents(t, "Normal Reason message", "Normal Reason message", "Normal Reason message")
	if sent := env.Writes(); len(sent) > 0 {
		t.Errorf("%v were sent", sent)
	}
}

// The stop does not cut off what a key in flight writes.
func TestWritesOfNodesSurviveTheStop(t *testing.T) {
	w := newWorld(t)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	bound := w.bind(stopped)
	if err := bound.Err(); err != nil {
		t.Errorf("the context of the write has ended: %v", err)
	}
	w.end()
	<-bound.Done()
}

// silent is an API server that does not answer.
type silent struct{ asked chan string }

func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked <- r.Method + " " + r.URL.Path
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// The library has no context for most of its requests. They end with the instance all the same.
// Pins CLOUD-41.
func TestFencedInstanceCancelsItsRequests(t *testing.T) {
	node, patched := nodeOf("a", "1"), nodeOf("a", "1")
	patched.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}}
	labelled := service.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	tests := map[string]struct {
		send func(kubernetes.Interface) error
		want string
	}{
		"a node is read": {
			func(c kubernetes.Interface) error {
				return nodehelpers.AddOrUpdateTaintOnNode(c, "a", &corev1.Taint{Key: "shutdown", Effect: corev1.TaintEffectNoSchedule})
			},
			"GET /api/v1/nodes/a",
		},
		"taints of a node are patched": {
			func(c kubernetes.Interface) error { return nodehelpers.PatchNodeTaints(c, "a", node, patched) },
			"PATCH /api/v1/nodes/a",
		},
		"addresses of a node are patched": {
			func(c kubernetes.Interface) error {
				_, _, err := nodeutil.PatchNodeStatus(c.CoreV1(), "a", node, patched)
				return err
			},
			"PATCH /api/v1/nodes/a/status",
		},
		"a condition of a node is patched": {
			func(c kubernetes.Interface) error {
				return nodeutil.SetNodeCondition(c, "a", corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable})
			},
			"PATCH /api/v1/nodes/a/status",
		},
		"a Service is patched": {
			func(c kubernetes.Interface) error {
				_, err := servicehelpers.PatchService(c.CoreV1(), service, labelled)
				return err
			},
			"PATCH /api/v1/namespaces/n/services/s/status",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			env, w := controllertest.New(t), newWorld(t)
			env.Cache(t, node)
			w.nodes = env.Informers.Core().V1().Nodes().Lister()
			server := silent{make(chan string, 1)}
			env.Client = must.Get(kubernetes.NewForConfigAndClient(&rest.Config{}, &http.Client{Transport: server}))(t)
			client := newClient(env.Env, w.guard)
			returned := make(chan struct{})
			go func() {
				defer close(returned)
				_ = test.send(client) // the library takes a request that is cancelled for one that succeeded
			}()
			if asked := soon(t, "it is sent", server.asked); asked != test.want {
				t.Errorf("%s was sent, want %s", asked, test.want)
			}
			w.stop()
			select {
			case <-returned:
				t.Error("the stop has cut it off")
			default:
			}
			w.end()
			soon(t, "it ends", returned)
		})
	}
}
