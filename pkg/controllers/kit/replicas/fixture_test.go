package replicas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/controllertest"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

var (
	setKind     = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	setResource = appsv1.Resource("replicasets")
	key         = types.NamespacedName{Namespace: "ns", Name: "rs"}
	appLabels   = map[string]string{"app": "a"}
)

// fixture is an engine whose caches hold exactly what the test puts there.
type fixture struct {
	*Engine[*appsv1.ReplicaSet]
	env    *controllertest.Env
	sets   cache.Store
	podsIn cache.Store
	queued *recorder
	stale  []schema.GroupResource
	ratios []float64
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

// newFixture makes an engine over the objects, which are both stored and cached.
func newFixture(t testing.TB, change func(*Kind[*appsv1.ReplicaSet], *Options), objects ...runtime.Object) *fixture {
	t.Helper()
	env := controllertest.New(t, objects...)
	nameCreatedPods(env)
	f := &fixture{
		env:    env,
		sets:   env.Informers.Apps().V1().ReplicaSets().Informer().GetStore(),
		podsIn: env.Informers.Core().V1().Pods().Informer().GetStore(),
		queued: &recorder{},
	}
	kind := testKind(env)
	options := Options{
		Queue:            "test",
		Workers:          1,
		DeletionCost:     true,
		CountTerminating: true,
		RequireFresh:     true,
		OnStale:          func(r schema.GroupResource) { f.stale = append(f.stale, r) },
		OnAgeRatio:       func(ratio float64) { f.ratios = append(f.ratios, ratio) },
	}
	if change != nil {
		change(&kind, &options)
	}
	engine, err := New(env.Env, kind, options)
	if err != nil {
		t.Fatal(err)
	}
	f.Engine = engine
	f.queue = f.queued
	for _, object := range objects {
		f.cache(t, object)
	}
	return f
}

// cache puts objects into the informer stores.
func (f *fixture) cache(t testing.TB, objects ...runtime.Object) {
	t.Helper()
	for _, object := range objects {
		store := f.podsIn
		if _, ok := object.(*appsv1.ReplicaSet); ok {
			store = f.sets
		}
		if err := store.Add(object); err != nil {
			t.Fatal(err)
		}
	}
}

// catchUp makes the caches show what the API server has.
func (f *fixture) catchUp(t testing.TB) {
	t.Helper()
	stored, err := f.env.Fake.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var podItems []any
	for i := range stored.Items {
		podItems = append(podItems, &stored.Items[i])
	}
	if err := f.podsIn.Replace(podItems, "1000000"); err != nil {
		t.Fatal(err)
	}
	sets, err := f.env.Fake.AppsV1().ReplicaSets("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var setItems []any
	for i := range sets.Items {
		setItems = append(setItems, &sets.Items[i])
	}
	if err := f.sets.Replace(setItems, "1000000"); err != nil {
		t.Fatal(err)
	}
	f.env.Fake.ClearActions()
}

// nameCreatedPods makes the fake API server generate names, UIDs and resource versions.
func nameCreatedPods(env *controllertest.Env) {
	var count atomic.Int64
	env.Fake.PrependReactor("create", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		pod := action.(ktesting.CreateAction).GetObject().(*corev1.Pod)
		n := strconv.Itoa(int(count.Add(1)))
		pod.Namespace = action.GetNamespace()
		pod.Name, pod.UID, pod.ResourceVersion = pod.GenerateName+n, types.UID("new-"+n), "100"+n
		return false, nil, nil
	})
}

// failing makes every request of a kind fail, as long as it is not told otherwise.
func (f *fixture) failing(verb, resource, subresource string, err error) (works func()) {
	var off atomic.Bool
	f.env.Fake.PrependReactor(verb, resource, func(action ktesting.Action) (bool, runtime.Object, error) {
		if off.Load() || action.GetSubresource() != subresource {
			return false, nil, nil
		}
		return true, nil, err
	})
	return func() { off.Store(true) }
}

// failingAfter makes every request of a kind fail after the first few.
func (f *fixture) failingAfter(verb, resource string, few int64, err error) {
	var count atomic.Int64
	f.env.Fake.PrependReactor(verb, resource, func(ktesting.Action) (bool, runtime.Object, error) {
		return count.Add(1) > few, nil, err
	})
}

// requests returns the requests since the last call, as "verb resource[/subresource] [name]".
func (f *fixture) requests() []string {
	var all []string
	for _, action := range f.env.Fake.Actions() {
		request := action.GetVerb() + " " + action.GetResource().Resource
		if action.GetSubresource() != "" {
			request += "/" + action.GetSubresource()
		}
		if named, ok := action.(interface{ GetName() string }); ok {
			request += " " + named.GetName()
		}
		all = append(all, request)
	}
	f.env.Fake.ClearActions()
	slices.Sort(all)
	return all
}

func (f *fixture) status(t testing.TB) appsv1.ReplicaSetStatus {
	t.Helper()
	stored, err := f.env.Fake.Tracker().Get(appsv1.SchemeGroupVersion.WithResource("replicasets"), "ns", "rs")
	if err != nil {
		t.Fatal(err)
	}
	return stored.(*appsv1.ReplicaSet).Status
}

func testKind(env *controllertest.Env) Kind[*appsv1.ReplicaSet] {
	lister := env.Informers.Apps().V1().ReplicaSets().Lister()
	client := env.Client.AppsV1()
	return Kind[*appsv1.ReplicaSet]{
		GroupVersionKind: setKind,
		Resource:         setResource,
		Informer:         env.Informers.Apps().V1().ReplicaSets().Informer(),
		Cached: func(namespace, name string) (*appsv1.ReplicaSet, error) {
			return lister.ReplicaSets(namespace).Get(name)
		},
		CachedIn: func(namespace string) ([]*appsv1.ReplicaSet, error) {
			return lister.ReplicaSets(namespace).List(labels.Everything())
		},
		Live: func(ctx context.Context, namespace, name string) (*appsv1.ReplicaSet, error) {
			return client.ReplicaSets(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		Selector: func(rs *appsv1.ReplicaSet) (labels.Selector, error) {
			return metav1.LabelSelectorAsSelector(rs.Spec.Selector)
		},
		Spec: func(rs *appsv1.ReplicaSet) Spec {
			return Spec{Replicas: *rs.Spec.Replicas, MinReadySeconds: rs.Spec.MinReadySeconds}
		},
		Template: func(rs *appsv1.ReplicaSet) *corev1.PodTemplateSpec { return &rs.Spec.Template },
		Status: func(rs *appsv1.ReplicaSet) Status {
			s := rs.Status
			status := Status{
				Replicas: s.Replicas, FullyLabeled: s.FullyLabeledReplicas, Ready: s.ReadyReplicas, Available: s.AvailableReplicas,
				Terminating: s.TerminatingReplicas, ObservedGeneration: s.ObservedGeneration,
			}
			for _, c := range s.Conditions {
				status.Conditions = append(status.Conditions, Condition{string(c.Type), c.Status, c.LastTransitionTime, c.Reason, c.Message})
			}
			return status
		},
		WriteStatus: func(ctx context.Context, rs *appsv1.ReplicaSet, s Status) (*appsv1.ReplicaSet, error) {
			rs = rs.DeepCopy()
			version, err := strconv.Atoi("0" + rs.ResourceVersion)
			if err != nil {
				return nil, errors.New("the cached version is no number")
			}
			rs.ResourceVersion = strconv.Itoa(version + 1)
			rs.Status = appsv1.ReplicaSetStatus{
				Replicas: s.Replicas, FullyLabeledReplicas: s.FullyLabeled, ReadyReplicas: s.Ready, AvailableReplicas: s.Available,
				TerminatingReplicas: s.Terminating, ObservedGeneration: s.ObservedGeneration,
			}
			for _, c := range s.Conditions {
				rs.Status.Conditions = append(rs.Status.Conditions, appsv1.ReplicaSetCondition{
					Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status,
					LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
				})
			}
			return client.ReplicaSets(rs.Namespace).UpdateStatus(ctx, rs, metav1.UpdateOptions{})
		},
	}
}

// replicaSet makes an owner whose status is up to date for no pods.
func replicaSet(replicas int32, changes ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "rs", UID: "o", Generation: 1, ResourceVersion: "10"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: appLabels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: appLabels}},
		},
		Status: appsv1.ReplicaSetStatus{ObservedGeneration: 1, TerminatingReplicas: new(int32)},
	}
	for _, change := range changes {
		change(rs)
	}
	return rs
}

func named(name string, uid types.UID) func(*appsv1.ReplicaSet) {
	return func(rs *appsv1.ReplicaSet) { rs.Name, rs.UID = name, uid }
}

// replicaPod makes an active pod that the owner controls.
func replicaPod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: "20", Labels: map[string]string{"app": "a"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(replicaSet(0), setKind)},
		},
		Spec:   corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func orphan(p *corev1.Pod) { p.OwnerReferences = nil }

func labeled(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": value} }
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func beingDeleted(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} }

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func readySince(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
	}
}

func (f *fixture) mustReconcile(t *testing.T) {
	t.Helper()
	if err := f.reconcile(f.env.Context(), key); err != nil {
		t.Fatalf("reconcile: %v", err)
	}
}

func (f *fixture) wantRequests(t *testing.T, want ...string) {
	t.Helper()
	if got := f.requests(); !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
}

func (f *fixture) wantQueued(t *testing.T, want ...string) {
	t.Helper()
	if got := f.queued.take(); !slices.Equal(got, want) {
		t.Errorf("queued %q, want %q", got, want)
	}
}

func (f *fixture) wantEvents(t *testing.T, want ...string) {
	t.Helper()
	if got := f.env.RecordedEvents(); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

// failingFirst makes the first request of a kind fail.
func (f *fixture) failingFirst(verb, resource string, err error) {
	var count atomic.Int64
	f.env.Fake.PrependReactor(verb, resource, func(ktesting.Action) (bool, runtime.Object, error) {
		return count.Add(1) == 1, nil, err
	})
}
