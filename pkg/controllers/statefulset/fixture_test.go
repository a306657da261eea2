package statefulset

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/controllertest"
	"kcmd.dev/pkg/controllers/kit/history"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

var (
	key     = types.NamespacedName{Namespace: "ns", Name: "web"}
	start   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	errTest = errors.New("no")
)

// newSet makes a set named web whose template has the image v1.
func newSet(replicas int32, changes ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "o", Generation: 1, ResourceVersion: "10"},
		Spec: appsv1.StatefulSetSpec{
			Replicas:    &replicas,
			ServiceName: "svc",
			Selector:    &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
			},
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type:          appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32)},
			},
		},
	}
	for _, change := range changes {
		change(set)
	}
	return set
}

func parallel(set *appsv1.StatefulSet) { set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }

func image(image string) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = image }
}

func partition(n int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = &n }
}

func withoutRollingUpdate(set *appsv1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate = nil }

func onDelete(set *appsv1.StatefulSet) {
	set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
}

func startingAt(n int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} }
}

func minReady(seconds int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = seconds }
}

func claims(names ...string) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		for _, name := range names {
			set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates,
				corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": "t"}}})
		}
	}
}

func retention(whenDeleted, whenScaled appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: whenDeleted, WhenScaled: whenScaled,
		}
	}
}

const (
	retain  = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	discard = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
)

// revisionAt is the revision that the template of a set has with a number.
func revisionAt(t testing.TB, number int64, changes ...func(*appsv1.StatefulSet)) *appsv1.ControllerRevision {
	t.Helper()
	set := newSet(1, changes...)
	payload, err := history.Payload(&set.Spec.Template)
	if err != nil {
		t.Fatal(err)
	}
	r := history.New(history.Owner{Object: set, Kind: setKind}, &set.Spec.Template, payload, number, 0)
	r.Namespace, r.UID, r.ResourceVersion = "ns", types.UID(r.Name), "30"
	return r
}

// podAt makes a Running and Ready pod of the slot at a revision.
func podAt(set *appsv1.StatefulSet, revision string, ordinal int, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := newPod(set, revision, ordinal)
	pod.UID, pod.ResourceVersion = types.UID(pod.Name), "20"
	pod.Status.Phase = corev1.PodRunning
	readySince(start.Add(-time.Hour))(pod)
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func phase(p corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = p }
}

func readySince(at time.Time) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
	}
}

func notReady(pod *corev1.Pod)    { pod.Status.Conditions = nil }
func terminating(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: start} }
func orphaned(pod *corev1.Pod)    { pod.OwnerReferences = nil }

// fixture is a controller whose caches hold exactly what the test puts there.
type fixture struct {
	*statefulSetController
	env    *controllertest.Env
	queued *recorder
	// version is the newest resource version that the API server gave.
	version atomic.Int64
}

// recorder records what was queued.
type recorder struct{ keys []string }

func (r *recorder) Enqueue(lane reconcile.Lane, key types.NamespacedName) {
	r.keys = append(r.keys, map[reconcile.Lane]string{reconcile.Fresh: "", reconcile.Backlog: "backlog "}[lane]+key.Name)
}

func (r *recorder) AddAfter(key types.NamespacedName, delay time.Duration) {
	r.keys = append(r.keys, fmt.Sprintf("%s in %v", key.Name, delay))
}

func (r *recorder) take() []string {
	keys := r.keys
	r.keys = nil
	return keys
}

var defaultGates = value{concurrentSyncs: 1, staleConsistency: true, semanticComparison: true}

func newFixture(t testing.TB, objects ...runtime.Object) *fixture {
	t.Helper()
	return newFixtureWith(t, defaultGates, objects...)
}

// newFixtureWith makes a controller over the objects, which are both stored and cached.
func newFixtureWith(t testing.TB, v value, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{env: controllertest.New(t, objects...), queued: &recorder{}}
	f.version.Store(100)
	f.env.Fake.PrependReactor("*", "*", f.stamp)
	c, err := newController(f.env.Env, v)
	if err != nil {
		t.Fatal(err)
	}
	f.statefulSetController = c
	f.queue = f.queued
	f.cache(t, objects...)
	return f
}

// stamp gives what is written UIDs, versions and phases, which the fake API server leaves out.
func (f *fixture) stamp(action ktesting.Action) (bool, runtime.Object, error) {
	written, ok := action.(interface{ GetObject() runtime.Object })
	if !ok {
		return false, nil, nil
	}
	obj, err := meta.Accessor(written.GetObject())
	if err != nil {
		return true, nil, err
	}
	if action.GetVerb() == "create" {
		obj.SetUID(types.UID("new-" + obj.GetName()))
		if pod, ok := obj.(*corev1.Pod); ok && pod.Status.Phase == "" {
			phase(corev1.PodPending)(pod)
		}
	}
	obj.SetResourceVersion(strconv.FormatInt(f.version.Add(1), 10))
	return false, nil, nil
}

func (f *fixture) store(object runtime.Object) cache.Store {
	apps, core := f.env.Informers.Apps().V1(), f.env.Informers.Core().V1()
	switch object.(type) {
	case *appsv1.StatefulSet:
		return apps.StatefulSets().Informer().GetStore()
	case *appsv1.ControllerRevision:
		return apps.ControllerRevisions().Informer().GetStore()
	case *corev1.PersistentVolumeClaim:
		return core.PersistentVolumeClaims().Informer().GetStore()
	}
	return core.Pods().Informer().GetStore()
}

// cache puts objects into the informer stores.
func (f *fixture) cache(t testing.TB, objects ...runtime.Object) {
	t.Helper()
	for _, object := range objects {
		if err := f.store(object).Add(object); err != nil {
			t.Fatal(err)
		}
	}
}

// catchUp makes the caches show what the API server has.
func (f *fixture) catchUp(t testing.TB) {
	t.Helper()
	ctx, none := t.Context(), metav1.ListOptions{}
	client := f.env.Fake
	sets, err1 := client.AppsV1().StatefulSets("ns").List(ctx, none)
	revisions, err2 := client.AppsV1().ControllerRevisions("ns").List(ctx, none)
	claims, err3 := client.CoreV1().PersistentVolumeClaims("ns").List(ctx, none)
	podList, err4 := client.CoreV1().Pods("ns").List(ctx, none)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	replace(t, f.store(&appsv1.StatefulSet{}), sets.Items)
	replace(t, f.store(&appsv1.ControllerRevision{}), revisions.Items)
	replace(t, f.store(&corev1.PersistentVolumeClaim{}), claims.Items)
	replace(t, f.store(&corev1.Pod{}), podList.Items)
	f.env.Fake.ClearActions()
}

func replace[T any](t testing.TB, store cache.Store, items []T) {
	t.Helper()
	var all []any
	for i := range items {
		all = append(all, &items[i])
	}
	if err := store.Replace(all, "1000000"); err != nil {
		t.Fatal(err)
	}
}

// kubelet makes every pod of the API server that is not being deleted run and be ready.
func (f *fixture) kubelet(t testing.TB) {
	t.Helper()
	list, err := f.env.Fake.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		phase(corev1.PodRunning)(pod)
		readySince(start.Add(-time.Hour))(pod)
		if _, err := f.env.Fake.CoreV1().Pods("ns").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.catchUp(t)
}

// fail makes every request of a kind fail.
func (f *fixture) fail(verb, resource string, err error) {
	f.env.Fake.PrependReactor(verb, resource, func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

// requests returns the requests since the last call, sorted, as "verb resource[/subresource] [name]".
func (f *fixture) requests() []string {
	var all []string
	for _, action := range f.env.Fake.Actions() {
		request := action.GetVerb() + " " + action.GetResource().Resource
		if action.GetSubresource() != "" {
			request += "/" + action.GetSubresource()
		}
		switch action := action.(type) {
		case interface{ GetName() string }:
			request += " " + action.GetName()
		case ktesting.CreateAction:
			if obj, err := meta.Accessor(action.GetObject()); err == nil {
				request += " " + obj.GetName()
			}
		}
		all = append(all, request)
	}
	f.env.Fake.ClearActions()
	slices.Sort(all)
	return all
}

func (f *fixture) mustReconcile(t testing.TB) {
	t.Helper()
	if err := f.reconcile(f.env.Context(), key); err != nil {
		t.Fatalf("reconcile: %v", err)
	}
}

func (f *fixture) wantRequests(t testing.TB, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := f.requests(); !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
}

func (f *fixture) wantQueued(t testing.TB, want ...string) {
	t.Helper()
	if got := f.queued.take(); !slices.Equal(got, want) {
		t.Errorf("queued %q, want %q", got, want)
	}
}

func (f *fixture) wantEvents(t testing.TB, want ...string) {
	t.Helper()
	if got := f.env.RecordedEvents(); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

func (f *fixture) status(t testing.TB) appsv1.StatefulSetStatus {
	t.Helper()
	stored, err := f.env.Fake.Tracker().Get(appsv1.SchemeGroupVersion.WithResource("statefulsets"), "ns", "web")
	if err != nil {
		t.Fatal(err)
	}
	return stored.(*appsv1.StatefulSet).Status
}

// edited makes the spec of a set newer than its status.
func edited(set *appsv1.StatefulSet) { set.Generation = 2 }

// settledAt gives a set the status it has when all its pods are ready at a revision.
func settledAt(revision string) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		n := *set.Spec.Replicas
		set.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: 1, Replicas: n, ReadyReplicas: n, AvailableReplicas: n, CurrentReplicas: n, UpdatedReplicas: n,
			CurrentRevision: revision, UpdateRevision: revision, CollisionCount: new(int32),
		}
	}
}
