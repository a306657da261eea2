package daemonset

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/controllertest"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// harness is a controller on a fake API server. Its caches show only what observe has
// put into them, so that a test decides how stale they are.
type harness struct {
	*controllertest.Env
	c      *daemonSetController
	queued *queued
	// version is the newest resource version.
	version atomic.Int64
}

func newHarness(t testing.TB, requireFresh bool, objects ...runtime.Object) *harness {
	t.Helper()
	h := &harness{queued: &queued{delayed: map[types.NamespacedName]time.Duration{}}}
	h.version.Store(100)
	for _, obj := range objects {
		object, err := meta.Accessor(obj)
		if err != nil {
			t.Fatal(err)
		}
		object.SetResourceVersion(strconv.FormatInt(h.version.Add(1), 10))
	}
	h.Env = controllertest.New(t, objects...)
	h.Fake.PrependReactor("*", "*", h.react)
	c, err := newController(h.Env.Env, config{concurrentSyncs: 2, requireFresh: requireFresh})
	if err != nil {
		t.Fatal(err)
	}
	h.c = c
	h.c.queue = h.queued
	return h
}

// react does what the fake API server leaves out: names, versions and UIDs, and keeping
// the spec when a status is written.
func (h *harness) react(action clienttesting.Action) (bool, runtime.Object, error) {
	update, ok := action.(clienttesting.UpdateAction) // creations are updates as well
	if !ok {
		return false, nil, nil
	}
	object, err := meta.Accessor(update.GetObject())
	if err != nil {
		return true, nil, err
	}
	version := h.version.Add(1)
	object.SetResourceVersion(strconv.FormatInt(version, 10))
	if action.GetVerb() == "create" {
		if object.GetName() == "" {
			object.SetName(fmt.Sprint(object.GetGenerateName(), version))
		}
		object.SetUID(types.UID(object.GetName()))
		object.SetCreationTimestamp(metav1.NewTime(h.Clock.Now()))
	}
	return false, nil, nil
}

// observe brings the caches up to date.
func (h *harness) observe(t testing.TB) {
	t.Helper()
	ctx, all := h.Context(), metav1.ListOptions{}
	sets, err1 := h.Fake.AppsV1().DaemonSets("").List(ctx, all)
	revisions, err2 := h.Fake.AppsV1().ControllerRevisions("").List(ctx, all)
	pods, err3 := h.Fake.CoreV1().Pods("").List(ctx, all)
	nodes, err4 := h.Fake.CoreV1().Nodes().List(ctx, all)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		t.Fatal(err1, err2, err3, err4)
	}
	apps, core := h.Informers.Apps().V1(), h.Informers.Core().V1()
	fill(t, h, apps.DaemonSets().Informer(), sets.Items)
	fill(t, h, apps.ControllerRevisions().Informer(), revisions.Items)
	fill(t, h, core.Pods().Informer(), pods.Items)
	fill(t, h, core.Nodes().Informer(), nodes.Items)
	h.Fake.ClearActions()
}

func fill[T any](t testing.TB, h *harness, informer cache.SharedIndexInformer, items []T) {
	t.Helper()
	objects := make([]any, len(items))
	for i := range items {
		objects[i] = &items[i]
	}
	if err := informer.GetStore().Replace(objects, strconv.FormatInt(h.version.Load(), 10)); err != nil {
		t.Fatal(err)
	}
}

// reconcile observes, reconciles, and fails the test on an error.
func (h *harness) reconcile(t testing.TB) {
	t.Helper()
	h.observe(t)
	if err := h.c.reconcile(h.Context(), key); err != nil {
		t.Fatalf("reconcile: %v", err)
	}
}

// settle reconciles until there is nothing to do, making new pods ready on their nodes.
func (h *harness) settle(t testing.TB) {
	t.Helper()
	for range 50 {
		h.reconcile(t)
		changed := len(h.requests()) > 0
		for _, pod := range h.pods(t) {
			if pod.Spec.NodeName == "" {
				pod.Spec.NodeName = targetOf(pod)
				pod.Status = newPod("", "").Status
				h.store(t, pod)
				changed = true
			}
		}
		if !changed {
			return
		}
		h.Clock.Step(time.Second)
	}
	t.Fatal("it does not settle")
}

// requests are the requests since the last observation, as "verb resource", sorted.
func (h *harness) requests() []string {
	var all []string
	for _, action := range h.Fake.Actions() {
		name := action.GetVerb() + " " + action.GetResource().Resource
		if sub := action.GetSubresource(); sub != "" {
			name += "/" + sub
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func (h *harness) wantRequests(t testing.TB, want ...string) {
	t.Helper()
	if got := h.requests(); !slices.Equal(got, want) {
		t.Errorf("requests are %q, want %q", got, want)
	}
}

func (h *harness) wantEvents(t testing.TB, want ...string) {
	t.Helper()
	if got := h.RecordedEvents(); !slices.Equal(got, want) {
		t.Errorf("events are %q, want %q", got, want)
	}
}

// set is the set agent as the API server has it.
func (h *harness) set(t testing.TB) *appsv1.DaemonSet {
	t.Helper()
	ds, err := h.Fake.Tracker().Get(appsv1.SchemeGroupVersion.WithResource("daemonsets"), namespace, "agent")
	if err != nil {
		t.Fatal(err)
	}
	return ds.(*appsv1.DaemonSet).DeepCopy()
}

func (h *harness) pods(t testing.TB) []*corev1.Pod {
	t.Helper()
	list, err := h.Fake.Tracker().List(corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), namespace)
	if err != nil {
		t.Fatal(err)
	}
	var all []*corev1.Pod
	for _, pod := range list.(*corev1.PodList).Items {
		all = append(all, pod.DeepCopy())
	}
	return all
}

func (h *harness) revisions(t testing.TB) []*appsv1.ControllerRevision {
	t.Helper()
	list, err := h.Fake.Tracker().List(appsv1.SchemeGroupVersion.WithResource("controllerrevisions"), appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), namespace)
	if err != nil {
		t.Fatal(err)
	}
	var all []*appsv1.ControllerRevision
	for _, r := range list.(*appsv1.ControllerRevisionList).Items {
		all = append(all, r.DeepCopy())
	}
	slices.SortFunc(all, func(a, b *appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return all
}

// store replaces an object as somebody else would, or creates it.
func (h *harness) store(t testing.TB, obj runtime.Object) {
	t.Helper()
	object, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	object.SetResourceVersion(strconv.FormatInt(h.version.Add(1), 10))
	gvks, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		t.Fatal(err)
	}
	gvr, _ := meta.UnsafeGuessKindToResource(gvks[0])
	if err := h.Fake.Tracker().Update(gvr, obj, object.GetNamespace()); err == nil {
		return
	}
	if err := h.Fake.Tracker().Create(gvr, obj, object.GetNamespace()); err != nil {
		t.Fatal(err)
	}
}

// change changes the spec of the set.
func (h *harness) change(t testing.TB, changes ...func(*appsv1.DaemonSet)) {
	t.Helper()
	ds := h.set(t)
	for _, change := range changes {
		change(ds)
	}
	ds.Generation++
	h.store(t, ds)
}

// failOn makes one kind of request fail.
func (h *harness) failOn(verb, resource string, err error) {
	h.Fake.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

// queued records what is queued.
type queued struct {
	mu      sync.Mutex
	keys    []string
	delayed map[types.NamespacedName]time.Duration
}

func (q *queued) Enqueue(lane reconcile.Lane, key types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name := key.Name
	if lane == reconcile.Backlog {
		name += " (backlog)"
	}
	q.keys = append(q.keys, name)
}

func (q *queued) AddAfter(key types.NamespacedName, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delayed[key] = delay
}

// take returns and forgets what was queued, in order of names.
func (q *queued) take() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := q.keys
	q.keys = nil
	slices.Sort(keys)
	return keys
}

func (q *queued) takeDelay() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	delay := q.delayed[key]
	delete(q.delayed, key)
	return delay
}
