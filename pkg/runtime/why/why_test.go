package why

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/breaker"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/journal"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/supervisor"
)

var (
	now         = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	pods        = schema.GroupResource{Resource: "pods"}
	configMaps  = schema.GroupResource{Resource: "configmaps"}
	replicaSets = schema.GroupResource{Group: "apps", Resource: "replicasets"}
	deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}
	services    = schema.GroupResource{Resource: "services"}
)

// world is what questions are answered from.
type world struct {
	Sources
	cached map[clients.Target]metav1.Object
	lag    map[schema.GroupResource]string
	held   map[string][]controller.LoopKey
	states []supervisor.Status
	leases []leadership.LeaseStatus
	stops  []breaker.Stop
	reads  map[string][]schema.GroupResource
}

func newWorld() *world {
	w := &world{
		cached: map[clients.Target]metav1.Object{},
		held:   map[string][]controller.LoopKey{},
		reads: map[string][]schema.GroupResource{
			"deployment-controller": {deployments, replicaSets, pods},
			"replicaset-controller": {replicaSets, pods},
			"endpoints-controller":  {services, pods},
			"namespace-controller":  {namespaces},
			"garbage-collector":     nil,
		},
	}
	for name := range w.reads {
		w.states = append(w.states, supervisor.Status{Name: name, State: supervisor.Running})
	}
	slices.SortFunc(w.states, func(a, b supervisor.Status) int { return strings.Compare(a.Name, b.Name) })
	w.Sources = Sources{
		Journal:     journal.New(),
		Controllers: func() []supervisor.Status { return w.states },
		Keys: func(wanted func(string) bool) map[string][]controller.LoopKey {
			found := map[string][]controller.LoopKey{}
			for name, keys := range w.held {
				found[name] = slices.DeleteFunc(slices.Clone(keys), func(k controller.LoopKey) bool { return !wanted(k.Key) })
			}
			return found
		},
		Leadership: func() leadership.Status { return leadership.Status{Leases: w.leases} },
		Reads: func(name string) ([]schema.GroupResource, bool) {
			return w.reads[name], name == "garbage-collector"
		},
		Served: func() []*metav1.APIResourceList {
			return []*metav1.APIResourceList{
				{GroupVersion: "v1", APIResources: []metav1.APIResource{
					{Name: "pods", SingularName: "pod", Kind: "Pod", Namespaced: true, ShortNames: []string{"po"}},
					{Name: "pods/status", SingularName: "", Kind: "Pod", Namespaced: true},
					{Name: "namespaces", SingularName: "namespace", Kind: "Namespace", ShortNames: []string{"ns"}},
				}},
				{GroupVersion: "metrics.k8s.io/v1beta1", APIResources: []metav1.APIResource{{Name: "pods", SingularName: "pod", Kind: "PodMetrics", Namespaced: true}}},
				{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
					{Name: "deployments", SingularName: "deployment", Kind: "Deployment", Namespaced: true, ShortNames: []string{"deploy"}},
				}},
			}
		},
		Caches:    func() Caches { return w },
		Stops:     func() []breaker.Stop { return w.stops },
		Rejected:  func() string { return "" },
		Unreached: func() string { return "" },
		Clock:     clocktesting.NewFakeClock(now),
	}
	return w
}

func (w *world) Lookup(resource schema.GroupResource, namespace, name string) (metav1.Object, bool) {
	return w.cached[clients.Target{Resource: resource, Namespace: namespace, Name: name}], w.lag[resource] == ""
}

func (w *world) Problem(resource schema.GroupResource) string { return w.lag[resource] }

func (w *world) Visit(namespace string, visit func(schema.GroupResource, metav1.Object)) {
	for t, o := range w.cached {
		if t.Namespace == namespace {
			visit(t.Resource, o)
			visit(t.Resource, o) // in two caches
		}
	}
}

func (w *world) cache(resource schema.GroupResource, o metav1.Object) {
	w.cached[clients.Target{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}] = o
}

func target(resource schema.GroupResource, namespace, name string) clients.Target {
	return clients.Target{Resource: resource, Namespace: namespace, Name: name}
}

// wrote records a write that was made some seconds ago.
func (w *world) wrote(ago int, by, verb string, of, owner clients.Target, code int, message string) {
	w.Journal.Add(journal.Record{
		Write:      clients.Write{Verb: verb, Target: of, Owner: owner, Code: code, Message: message, Began: now.Add(-time.Duration(ago) * time.Second), Took: time.Millisecond},
		Controller: by, Generation: 2, Term: 3,
	})
}

func (w *world) ask(t *testing.T, q Query) *Answer {
	t.Helper()
	a, err := w.Ask(q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestResolve(t *testing.T) {
	w := newWorld()
	for query, want := range map[string]string{
		"deployment": "deployments.apps/x -n ns", "deployments": "deployments.apps/x -n ns", "Deployment": "deployments.apps/x -n ns",
		"deploy": "deployments.apps/x -n ns", "deployments.apps": "deployments.apps/x -n ns", "deploy.apps": "deployments.apps/x -n ns",
		"deployments.v1.apps": "deployments.apps/x -n ns", "deploy.v1beta2.apps": "deployments.apps/x -n ns",
		"pods.v1.": "pods/x -n ns", "pods.": "pods/x -n ns", "podmetrics.v1.metrics.k8s.io": "pods.metrics.k8s.io/x -n ns",
		"po": "pods/x -n ns", "namespaces": "namespaces/x", "ns": "namespaces/x",
	} {
		if a := w.ask(t, Query{Type: query, Namespace: "ns", Name: "x"}); a.Object.String() != want {
			t.Errorf("%s is %s, want %s", query, a.Object, want)
		}
	}
	if a := w.ask(t, Query{Type: "pod", Name: "x"}); a.Object.Namespace != "default" {
		t.Errorf("without a namespace it is %s", a.Object)
	}
	for _, q := range []Query{{Type: "pods"}, {Name: "x"}, {Type: "pods.apps", Name: "x"}, {Type: "pods.v1.apps", Name: "x"}, {Type: "pods/status", Name: "x"}, {Type: "widgets", Name: "x"}} {
		if a, err := w.Ask(q); err == nil {
			t.Errorf("%+v is %s", q, a.Object)
		}
	}
	w.Served = func() []*metav1.APIResourceList { return nil }
	if _, err := w.Ask(Query{Type: "pods", Name: "x"}); err == nil {
		t.Error("it is known what is served before the API server was asked")
	}
}

// Dependents are found through the writes that made them, and through the caches.
func TestWritesOfTheFamily(t *testing.T) {
	w := newWorld()
	none := clients.Target{}
	web, set := target(deployments, "shop", "web"), target(replicaSets, "shop", "web-1")
	w.wrote(9, "deployment-controller", "create", set, web, 201, "")
	w.wrote(8, "replicaset-controller", "create", target(pods, "shop", "web-1-a"), set, 201, "")
	w.wrote(7, "replicaset-controller", "create", target(pods, "shop", "web-1-*"), set, 403, "exceeded quota")
	w.wrote(6, "podgc", "delete", target(pods, "shop", "web-1-a"), none, 200, "")
	w.wrote(5, "replicaset-controller", "create", target(pods, "shop", "other-1-a"), target(replicaSets, "shop", "other-1"), 201, "")
	w.wrote(4, "replicaset-controller", "create", target(pods, "elsewhere", "web-1-b"), target(replicaSets, "elsewhere", "web-1"), 201, "")
	w.wrote(3, "podgc", "delete", target(pods, "shop", "web-0-z"), none, 200, "") // its creation is not remembered
	old := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-0", Controller: ptr.To(true)}}
	w.cache(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0-z", OwnerReferences: old}})
	w.cache(replicaSets, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", Controller: ptr.To(true)},
	}}})
	w.cache(deployments, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})

	a := w.ask(t, Query{Type: "deployment", Namespace: "shop", Name: "web"})
	var got []string
	for _, write := range a.Writes {
		got = append(got, write.Verb+" "+write.Object.Name)
	}
	want := []string{"create web-1", "create web-1-a", "create web-1-*", "delete web-1-a", "delete web-0-z"}
	if !slices.Equal(got, want) || a.Earlier != 0 || !a.Since.Equal(now.Add(-9*time.Second)) {
		t.Errorf("the writes are %q since %s, want %q", got, a.Since, want)
	}
	if want := []string{"The last create of pods by replicaset-controller failed: exceeded quota"}; !slices.Equal(a.Findings, want) {
		t.Errorf("found %q, want %q", a.Findings, want)
	}
	var names []string
	for _, c := range a.Controllers {
		names = append(names, c.Name)
	}
	if want := []string{"deployment-controller", "replicaset-controller"}; !slices.Equal(names, want) {
		t.Errorf("the controllers are %q, want %q", names, want)
	}
	a = w.ask(t, Query{Type: "deployment", Namespace: "shop", Name: "web", Last: 2})
	if len(a.Writes) != 2 || a.Writes[1].Object.Name != "web-0-z" || a.Earlier != 3 {
		t.Errorf("the last two writes are %+v, and %d earlier ones", a.Writes, a.Earlier)
	}
	if a = w.ask(t, Query{Type: "pod", Namespace: "shop", Name: "web-1-a"}); len(a.Writes) != 2 {
		t.Errorf("the writes of a pod are %+v", a.Writes)
	}
	if a = w.ask(t, Query{Type: "namespace", Name: "elsewhere"}); len(a.Writes) != 1 {
		t.Errorf("the writes in a namespace are %+v", a.Writes)
	}
}

// A write that succeeded later is no refusal any more.
func TestARefusalIsOver(t *testing.T) {
	w := newWorld()
	w.cache(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}})
	w.wrote(2, "a", "patch", target(pods, "ns", "p"), clients.Target{}, 409, "conflict")
	w.wrote(1, "a", "patch", target(pods, "ns", "p"), clients.Target{}, 200, "")
	if a := w.ask(t, Query{Type: "pod", Namespace: "ns", Name: "p"}); !slices.Equal(a.Findings, []string{"Nothing is known that keeps a controller from working on it."}) {
		t.Errorf("found %q", a.Findings)
	}
}

// A key counts only if its controller reads what has that name: a Service can be called as a
// Deployment is.
func TestKeysOfTheFamily(t *testing.T) {
	w := newWorld()
	w.cache(deployments, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
	w.held = map[string][]controller.LoopKey{
		"deployment-controller": {
			{Queue: "deployment", Key: "shop/web", State: controller.KeyDelayed, Until: now.Add(90 * time.Second), Trigger: "retry", Retries: 4, LastError: "broken"},
			{Queue: "deployment", Key: "shop/other", State: controller.KeyQueued, Since: now},
			{Queue: "timed", Key: "shop/web", State: controller.KeyDelayed, Until: now.Add(10 * time.Minute), Trigger: "timer"},
		},
		"endpoints-controller": {{Queue: "endpoint", Key: "shop/web", State: controller.KeyQueued, Since: now}},
		"garbage-collector":    {{Queue: "attempt", Key: "shop/web", State: controller.KeyInFlight, Since: now.Add(-time.Minute)}},
	}
	a := w.ask(t, Query{Type: "deployment", Namespace: "shop", Name: "web"})
	want := []string{
		"deployment-controller, queue deployment, key shop/web: waits until 2026-05-04T12:01:30Z, 1m30s from now, after 4 failures in a row, the last of which is: broken.",
		"deployment-controller, queue timed, key shop/web: is reconciled again at 2026-05-04T12:10:00Z, 10m0s from now, or when something changes.",
		"garbage-collector, queue attempt, key shop/web: has been worked on for 1m0s.",
	}
	if !slices.Equal(a.Findings, want) || len(a.Keys) != 3 {
		t.Errorf("found %q, want %q", a.Findings, want)
	}
	for _, part := range []string{"\nKEY ", "\nshop/web  deployment-controller  deployment  Delayed   until 12:01:30  retry    4        broken\n", "No write of it is remembered: this process has written nothing yet.\n"} {
		if !strings.Contains(a.Text(), part) {
			t.Errorf("%q is missing in\n%s", part, a.Text())
		}
	}
}

func TestWhatKeepsControllersFromWorking(t *testing.T) {
	lease := func(leading bool, holder string, blocked map[string]string) leadership.LeaseStatus {
		l := leadership.LeaseStatus{Lock: "main", Leading: leading, Controllers: []string{"deployment-controller"}, Blocked: blocked}
		if holder != "" {
			l.Election = &election.Status{Identity: "me", Holder: holder}
		}
		return l
	}
	for name, test := range map[string]struct {
		state supervisor.Status
		lease leadership.LeaseStatus
		want  string
	}{
		"disabled": {supervisor.Status{State: supervisor.Disabled, Reason: "disabled in the configuration"}, lease(true, "me", nil),
			"deployment-controller is disabled by controllers.deployment-controller.enabled."},
		"a gate": {supervisor.Status{State: supervisor.Disabled, Reason: "needs the feature gate X"}, lease(true, "me", nil),
			"deployment-controller is in state Disabled: needs the feature gate X"},
		"another holder": {supervisor.Status{State: supervisor.Standby, Reason: "another process holds the lease"}, lease(false, "other", nil),
			"This process stands by for deployment-controller. Of the lock main, other holds the lease: ask that process."},
		"no holder": {supervisor.Status{State: supervisor.Standby}, lease(false, "", nil),
			"This process stands by for deployment-controller. Of the lock main, nobody holds the lease."},
		"MGR-259: a lease that cannot be taken": {supervisor.Status{State: supervisor.Standby, Reason: "the lease cannot be taken: leases is forbidden"}, lease(false, "", nil),
			"This process stands by for deployment-controller. Of the lock main, the lease cannot be taken: leases is forbidden."},
		"MGR-259: a lease that names this process, which does not hold it": {supervisor.Status{State: supervisor.Standby, Reason: "the lease is not held"}, lease(false, "me", nil),
			"This process stands by for deployment-controller. Of the lock main, the lease is not held."},
		"MGR-259: claims that cannot be read": {supervisor.Status{State: supervisor.Standby, Reason: "it is not known whether another process still runs it: leases is forbidden"}, lease(true, "me", nil),
			"This process stands by for deployment-controller. Of the lock main, it is not known whether another process still runs it: leases is forbidden."},
		"a lease that was just taken": {supervisor.Status{State: supervisor.Standby}, lease(true, "me", nil),
			"Nothing is known that keeps a controller from working on it."},
		"a claim": {supervisor.Status{State: supervisor.Standby}, lease(true, "me", map[string]string{"deployment-controller": "other still runs it"}),
			"deployment-controller does not run yet: other still runs it"},
		"a barrier": {supervisor.Status{State: supervisor.Running, Reason: "waits: pods are behind"}, lease(true, "me", nil),
			"deployment-controller is in state Running: waits: pods are behind"},
		"a failure": {supervisor.Status{State: supervisor.BackingOff, Reason: "next attempt in 5s", LastError: "boom"}, lease(true, "me", nil),
			"deployment-controller is in state BackingOff: backing off after: boom"},
		"missing": {supervisor.Status{State: supervisor.Waiting, Reason: "apps/v1 deployments"}, lease(true, "me", nil),
			"deployment-controller is in state Waiting: apps/v1 deployments"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.cache(deployments, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
			test.state.Name = "deployment-controller"
			w.states, w.leases = []supervisor.Status{test.state}, []leadership.LeaseStatus{test.lease}
			if a := w.ask(t, Query{Type: "deployment", Namespace: "shop", Name: "web"}); !slices.Equal(a.Findings, []string{test.want}) {
				t.Errorf("found %q, want %q", a.Findings, test.want)
			}
		})
	}
}

// A cache that is not up to date shows no object as absent, and is named if a controller that is concerned reads it.
// Pins MGR-258.
func TestCachesThatLag(t *testing.T) {
	w := newWorld()
	w.cache(deployments, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
	w.lag = map[schema.GroupResource]string{pods: "watching: pods is forbidden", namespaces: "watching: namespaces is forbidden"}
	for _, q := range []Query{{Type: "deployment", Namespace: "shop", Name: "web"}, {Type: "pod", Namespace: "shop", Name: "new"}} {
		if a := w.ask(t, q); !slices.Equal(a.Findings, []string{"The cache of pods is not up to date: watching: pods is forbidden"}) {
			t.Errorf("of a %s, found %q", q.Type, a.Findings)
		}
	}
}

// While the API server cannot be reached, nothing shows that an object is absent. Pins MGR-258.
func TestAServerThatIsNotReached(t *testing.T) {
	w := newWorld()
	w.Unreached = func() string { return "API discovery failed: connection refused" }
	if a := w.ask(t, Query{Type: "pod", Namespace: "shop", Name: "new"}); !slices.Equal(a.Findings, []string{"API discovery failed: connection refused"}) {
		t.Errorf("found %q", a.Findings)
	}
}

func TestWhatKeepsTheProcessFromWorking(t *testing.T) {
	w := newWorld()
	w.Rejected = func() string { return "config.yaml:1:1: broken" }
	w.Caches = func() Caches { return nil }
	want := []string{"The configuration file has changed and is not in force: config.yaml:1:1: broken", "This process has no connection to the API server."}
	if a := w.ask(t, Query{Type: "pod", Name: "x"}); !slices.Equal(a.Findings, want) {
		t.Errorf("found %q, want %q", a.Findings, want)
	}
}

func TestWhatIsLeftOfANamespace(t *testing.T) {
	w := newWorld()
	deleted := metav1.NewTime(now.Add(-5 * time.Minute))
	w.cached[target(namespaces, "", "shop")] = &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", DeletionTimestamp: &deleted},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes", "example.com/ns"}},
		Status: corev1.NamespaceStatus{Conditions: []corev1.NamespaceCondition{
			{Type: "NamespaceDeletionDiscoveryFailure", Status: corev1.ConditionFalse, Message: "all good"},
			{Type: "NamespaceContentRemaining", Status: corev1.ConditionTrue, LastTransitionTime: deleted, Message: "configmaps. has 1 resource instances"},
		}},
	}
	held := metav1.ObjectMeta{Namespace: "shop", Name: "keeper", DeletionTimestamp: &deleted, Finalizers: []string{"example.com/hold"}}
	w.cache(configMaps, &metav1.PartialObjectMetadata{ObjectMeta: held})
	held.Name, held.DeletionTimestamp = "not-yet-deleted", nil
	w.cache(configMaps, &metav1.PartialObjectMetadata{ObjectMeta: held})
	a := w.ask(t, Query{Type: "ns", Name: "shop"})
	want := []string{
		"It was deleted 5m0s ago.",
		"It has the finalizer example.com/ns in its spec, which no controller of Kubernetes removes: whoever set it has to.",
		"NamespaceContentRemaining, since 2026-05-04T11:55:00Z: configmaps. has 1 resource instances",
		"configmaps keeper is left: it has the finalizer example.com/hold, which no controller of Kubernetes removes: whoever set it has to.",
	}
	if !slices.Equal(a.Findings, want) {
		t.Errorf("found %q, want %q", a.Findings, want)
	}
}

func TestWhoRemovesAFinalizer(t *testing.T) {
	for finalizer, want := range map[string]string{
		"kubernetes.io/pvc-protection":                                   "which persistentvolumeclaim-protection-controller removes",
		"kubernetes.io/pv-controller":                                    "which persistentvolume-binder-controller removes",
		"customresourcecleanup.apiextensions.k8s.io":                     "which the API server removes",
		"snapshot.storage.kubernetes.io/pvc-as-source-protection":        "which the CSI snapshot controller removes",
		"external-attacher/ebs-csi-aws-com":                              "which the CSI attacher removes",
		"example.com/hold":                                               "which no controller of Kubernetes removes: whoever set it has to",
		"foregroundDeletion":                                             "which garbage-collector-controller removes",
		"snapshot.storage.kubernetes.io/volumesnapshot-bound-protection": "which the CSI snapshot controller removes",
	} {
		if got := remover(finalizer); got != want {
			t.Errorf("%s: got %q, want %q", finalizer, got, want)
		}
	}
}

func TestFinalizersOfAnObject(t *testing.T) {
	w := newWorld()
	deleted := metav1.NewTime(now)
	w.cache(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", DeletionTimestamp: &deleted, Finalizers: []string{"batch.kubernetes.io/job-tracking"}}})
	a := w.ask(t, Query{Type: "pod", Namespace: "ns", Name: "p"})
	if want := []string{"It was deleted 0s ago.", "It has the finalizer batch.kubernetes.io/job-tracking, which job-controller removes."}; !slices.Equal(a.Findings, want) {
		t.Errorf("found %q, want %q", a.Findings, want)
	}
	if a := w.ask(t, Query{Type: "pod", Namespace: "ns", Name: "none"}); a.Findings[0] != "The object does not exist." {
		t.Errorf("found %q", a.Findings)
	}
}

// The deletion timestamp of an object with a grace period is when that ends.
func TestAnObjectHasBeenDeletedBeforeItsGracePeriod(t *testing.T) {
	w := newWorld()
	ends := metav1.NewTime(now.Add(10 * time.Second))
	w.cache(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", DeletionTimestamp: &ends, DeletionGracePeriodSeconds: ptr.To[int64](30)}})
	if a := w.ask(t, Query{Type: "pod", Namespace: "ns", Name: "p"}); a.Findings[0] != "It was deleted 20s ago." {
		t.Errorf("found %q", a.Findings)
	}
}

func TestHandler(t *testing.T) {
	w := newWorld()
	w.wrote(1, "replicaset-controller", "create", target(pods, "ns", "p"), clients.Target{}, 403, "exceeded\nquota")
	get := func(query string) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		w.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, Path+query, nil))
		return recorder
	}
	for _, query := range []string{"", "?type=pod", "?type=nothing&name=x", "?type=pod&name=x&last=0", "?type=pod&name=x&last=a"} {
		if got := get(query); got.Code != http.StatusBadRequest {
			t.Errorf("%q is answered with %d", query, got.Code)
		}
	}
	const line = "05-04 11:59:59.000  replicaset-controller  -    -        create  pods p  403 exceeded quota  1ms   2           3\n"
	text := get("?type=pod&name=p&namespace=ns")
	if !strings.Contains(text.Body.String(), line) || !strings.HasPrefix(text.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("the page is\n%s", text.Body)
	}
	var a Answer
	if err := json.Unmarshal(get("?type=pod&name=p&namespace=ns&format=json&last=1").Body.Bytes(), &a); err != nil || len(a.Writes) != 1 || a.Writes[0].Code != 403 {
		t.Errorf("%v, %+v", err, a)
	}
}

// slowWriter is the response of a client that does not read it.
type slowWriter struct {
	*httptest.ResponseRecorder
	writing, read chan struct{}
}

func (w slowWriter) Write(body []byte) (int, error) {
	close(w.writing)
	<-w.read
	return w.ResponseRecorder.Write(body)
}

// A client that does not read its answer keeps nobody else from getting one. Pins MGR-231.
func TestWhoDoesNotReadHisAnswerHoldsUpNobody(t *testing.T) {
	handler := newWorld().Handler()
	question := func() *http.Request { return httptest.NewRequest(http.MethodGet, Path+"?type=pod&name=p", nil) }
	slow := slowWriter{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	first, second := make(chan struct{}), make(chan int, 1)
	go func() {
		defer close(first)
		handler.ServeHTTP(slow, question())
	}()
	<-slow.writing
	go func() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, question())
		second <- w.Code
	}()
	select {
	case code := <-second:
		if code != http.StatusOK {
			t.Errorf("answered with %d", code)
		}
	case <-time.After(10 * time.Second):
		t.Error("the second client gets no answer while the first does not read")
	}
	close(slow.read)
	<-first
}

// A webhook that repeats what a user wrote does not decide what the terminal of an operator does.
func TestTheTextHasNoControlCharacters(t *testing.T) {
	w := newWorld()
	w.wrote(1, "replicaset-controller", "create", target(pods, "ns", "p"), clients.Target{}, 403, "denied \x1b[2J")
	w.held = map[string][]controller.LoopKey{
		"replicaset-controller": {{Queue: "replicaset", Key: "ns/p", State: controller.KeyDelayed, Until: now, LastError: "\u009b2J"}},
	}
	text := w.ask(t, Query{Type: "pod", Namespace: "ns", Name: "p"}).Text()
	if strings.ContainsAny(text, "\x1b\u009b") || strings.Count(text, "denied \uFFFD[2J") != 2 || !strings.Contains(text, "\uFFFD2J\n") {
		t.Errorf("the text is\n%q", text)
	}
}

// A stopped kind is named if the object is of it, or if one of its dependents waits for it.
func TestStoppedDeletions(t *testing.T) {
	w := newWorld()
	w.cache(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}})
	w.stops = []breaker.Stop{
		{Resource: "pods", Controller: "podgc", Next: 1, Deleted: 50, Objects: 200, Limit: 50, Window: "5m"},
		{Resource: "jobs.batch", Controller: "garbage-collector", Next: 1},
	}
	const why = "Deletions of pods are stopped: podgc was about to delete one more of 200 pods when 50 had been deleted within 5m; the limit is 50. " +
		`If that is intended, set deletionBreaker.allowUntil in the configuration file to the time until which deletions may go on, such as "2026-05-04T13:00:00Z".`
	if a := w.ask(t, Query{Type: "pod", Namespace: "shop", Name: "a"}); !slices.Equal(a.Findings, []string{why}) {
		t.Errorf("found %q", a.Findings)
	}
	w.stops = w.stops[:1]
	w.cached = map[clients.Target]metav1.Object{target(namespaces, "", "shop"): &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
	w.held = map[string][]controller.LoopKey{"namespace-controller": {{Queue: "namespace", Key: "shop", State: controller.KeyStopped, Kinds: []string{"pods"}}}}
	want := []string{why, "namespace-controller, queue namespace, key shop: waits until deletions of pods go on (deletionBreaker)."}
	if a := w.ask(t, Query{Type: "namespace", Name: "shop"}); !slices.Equal(a.Findings, want) {
		t.Errorf("found %q, want %q", a.Findings, want)
	}
}
