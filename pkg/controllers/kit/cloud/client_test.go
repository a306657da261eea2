package cloud

import (
	"context"
	"net/http"
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
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
}

// A node is deleted by the UID of the one that the cloud was asked about.
// Pins CNLC-16.
func TestDeletionNamesTheNodeThatWasJudged(t *testing.T) {
	env := controllertest.New(t, nodeOf("a", "new"))
	client := newClient(env.Env, newWorld(t).guard)
	session := &Session{Client: client}
	session.Judged([]*corev1.Node{nodeOf("b", "other"), nodeOf("a", "old")})
	if err := client.CoreV1().Nodes().Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	sent, ok := env.Writes()[0].(clienttesting.DeleteAction)
	if !ok {
		t.Fatalf("%T was sent", env.Writes()[0])
	}
	if p := sent.GetDeleteOptions().Preconditions; p == nil || p.UID == nil || *p.UID != "old" {
		t.Errorf("the preconditions are %+v", p)
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
