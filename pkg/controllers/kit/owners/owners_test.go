package owners

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

var (
	setKind     = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	setResource = appsv1.Resource("replicasets")
	podResource = corev1.Resource("pods")
)

type setChange = func(*appsv1.ReplicaSet)

// set makes a ReplicaSet of version 10 whose UID is its name, and that wants pods with the
// label app of the same name.
func set(name string, changes ...setChange) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Generation: 1, ResourceVersion: "10"},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
	}
	for _, change := range changes {
		change(rs)
	}
	return rs
}

func at(version string) setChange {
	return func(rs *appsv1.ReplicaSet) { rs.ResourceVersion = version }
}

// bench has owners whose caches hold exactly what the test puts there.
type bench struct {
	*Owners[*appsv1.ReplicaSet]
	env    *controllertest.Env
	queued *controllertest.Queue[types.NamespacedName]
	stale  []string
	gone   []string
	worked []*appsv1.ReplicaSet
	fail   error
}

func newBench(t *testing.T, change func(*Options[*appsv1.ReplicaSet]), cached ...*appsv1.ReplicaSet) *bench {
	t.Helper()
	env := controllertest.New(t)
	informer, podInformer := env.Informers.Apps().V1().ReplicaSets().Informer(), env.Informers.Core().V1().Pods().Informer()
	f := &bench{env: env, queued: &controllertest.Queue[types.NamespacedName]{Namespace: "ns"}}
	options := Options[*appsv1.ReplicaSet]{
		Kind:     setKind,
		Resource: setResource,
		Informer: informer,
		Selector: func(rs *appsv1.ReplicaSet) (labels.Selector, error) {
			return metav1.LabelSelectorAsSelector(rs.Spec.Selector)
		},
		DependentStores: writes.Stores{podResource: podInformer.GetStore()},
		OnStale:         func(r schema.GroupResource) { f.stale = append(f.stale, r.Resource) },
		OnGone:          func(key types.NamespacedName) { f.gone = append(f.gone, key.Name) },
		Loop:            reconcile.Options[types.NamespacedName]{Queue: "test", Workers: 1},
	}
	if change != nil {
		change(&options)
	}
	f.Owners = New(env.Env, options, func(_ context.Context, rs *appsv1.ReplicaSet) error {
		f.worked = append(f.worked, rs)
		return f.fail
	})
	f.Queue = f.queued
	for _, rs := range cached {
		env.Cache(t, rs)
	}
	return f
}

func TestOwnerEvents(t *testing.T) {
	annotated := func(rs *appsv1.ReplicaSet) { rs.Annotations = map[string]string{"a": "b"} }
	echo := func(o *Options[*appsv1.ReplicaSet]) {
		o.MayIgnoreEcho = func(_, rs *appsv1.ReplicaSet) bool { return rs.Annotations == nil }
	}
	for _, test := range []struct {
		name    string
		options func(*Options[*appsv1.ReplicaSet])
		lane    reconcile.Lane
		now     *appsv1.ReplicaSet
		want    []string
	}{
		{"changed by somebody", echo, reconcile.Fresh, set("a", at("12")), []string{"a"}},
		{"own status write", echo, reconcile.Fresh, set("a", at("11")), nil},
		{"own status write that is of interest", echo, reconcile.Fresh, set("a", at("11"), annotated), []string{"a"}},
		{"own status write seen with a new spec", echo, reconcile.Fresh, set("a", at("11"), func(rs *appsv1.ReplicaSet) { rs.Generation = 2 }), []string{"a"}},
		{"own status write seen with a deletion", echo, reconcile.Fresh, set("a", at("11"), func(rs *appsv1.ReplicaSet) { rs.DeletionTimestamp = &metav1.Time{} }), []string{"a"}},
		{"own status write where echoes are not left out", nil, reconcile.Fresh, set("a", at("11")), []string{"a"}},
		{"a resync", echo, reconcile.Backlog, set("a", at("11")), []string{"backlog a"}},
		{"recreated", echo, reconcile.Fresh, set("a", at("11"), func(rs *appsv1.ReplicaSet) { rs.UID = "new" }), []string{"a", "a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newBench(t, test.options)
			f.WroteStatus(set("a"), set("a", at("11")))
			f.Updated(test.lane, set("a"), test.now)
			f.queued.WantInAnyOrder(t, test.want...)
		})
	}
}

func TestWhatWasWrittenIsForgottenWithTheOwner(t *testing.T) {
	f := newBench(t, nil)
	f.Writes.Hold(set("a"), time.Hour)
	f.Deleted(set("a", func(rs *appsv1.ReplicaSet) { rs.UID = "earlier" }))
	if f.Settled(set("a")) {
		t.Error("the deletion of a namesake made it forget")
	}
	f.Deleted(set("a"))
	if !f.Settled(set("a")) {
		t.Error("it is remembered")
	}
	f.queued.WantInAnyOrder(t, "a in 1h0m0s", "a in 1h0m0s", "a", "a")
}

// An owner that a list lacked may exist, and a cache that is behind may show its dependents as they were. Pins WL-121.
func TestWhatWasWrittenIsKeptForAnOwnerThatAListLacked(t *testing.T) {
	f := newBench(t, nil)
	key := reconcile.KeyOf(set("a"))
	reconciled := func() {
		t.Helper()
		if err := f.Reconcile(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	f.Writes.Hold(set("a"), time.Hour)
	f.queued.Clear()
	f.Missed(set("a"))
	reconciled()
	f.queued.Want(t, "a", "a in 5m0s")
	if f.Settled(set("a")) || len(f.gone) > 0 {
		t.Errorf("it is forgotten at once; gone are %q", f.gone)
	}
	f.env.Clock.Step(5 * time.Minute)
	reconciled()
	if !f.Settled(set("a")) || !slices.Equal(f.gone, []string{"a"}) {
		t.Errorf("it is remembered; gone are %q", f.gone)
	}

	// It is shown again, and then deleted.
	f.Writes.Hold(set("a"), time.Hour)
	f.Missed(set("a"))
	f.env.Cache(t, set("a"))
	reconciled()
	f.env.Uncache(t, set("a"))
	f.Deleted(set("a"))
	reconciled()
	if !f.Settled(set("a")) || !slices.Equal(f.gone, []string{"a", "a"}) {
		t.Errorf("it is remembered although it was deleted; gone are %q", f.gone)
	}
}

// The cache lacks an owner before the event says whether it was deleted, or only a list lacked it. Pins WL-121.
func TestWhatWasWrittenIsKeptUntilTheEventSaysWhatHappened(t *testing.T) {
	for name, test := range map[string]struct {
		event func(*bench)
		gone  bool
	}{
		"it was deleted":   {func(f *bench) { f.Deleted(set("a")) }, true},
		"a list lacked it": {func(f *bench) { f.Missed(set("a")) }, false},
		"there is none":    {func(*bench) {}, false},
	} {
		f := newBench(t, nil)
		reconciled := func() {
			t.Helper()
			if err := f.Reconcile(t.Context(), reconcile.KeyOf(set("a"))); err != nil {
				t.Fatal(err)
			}
		}
		f.Writes.Hold(set("a"), time.Hour)
		f.queued.Clear()
		reconciled()
		f.queued.Want(t, "a in 5m0s")
		if f.Settled(set("a")) {
			t.Errorf("%s: it is forgotten before that is known", name)
		}
		test.event(f)
		reconciled()
		if f.Settled(set("a")) != test.gone || test.gone != (len(f.gone) > 0) {
			t.Errorf("%s: gone are %q", name, f.gone)
		}
		f.env.Clock.Step(5 * time.Minute)
		reconciled()
		if !f.Settled(set("a")) || f.missed.since(reconcile.KeyOf(set("a"))) != (time.Time{}) {
			t.Errorf("%s: it is remembered for ever", name)
		}
	}
}

func TestReconcileReadsTheOwner(t *testing.T) {
	f := newBench(t, nil, set("a"))
	boom := errors.New("boom")
	f.fail = boom
	if err := f.Reconcile(t.Context(), reconcile.KeyOf(set("a"))); !errors.Is(err, boom) || len(f.worked) != 1 {
		t.Errorf("got %v, worked on %v", err, f.worked)
	}
	f.Writes.Hold(set("b"), time.Hour)
	if err := f.Reconcile(t.Context(), reconcile.KeyOf(set("b"))); err != nil || len(f.worked) != 1 {
		t.Errorf("an owner that is gone: %v", err)
	}
	f.Deleted(set("b"))
	if err := f.Reconcile(t.Context(), reconcile.KeyOf(set("b"))); err != nil || len(f.worked) != 1 {
		t.Errorf("an owner that is gone: %v", err)
	}
	if !slices.Equal(f.gone, []string{"b"}) || len(f.HandOver()) != 0 {
		t.Errorf("told that %q is gone, remembered %v", f.gone, f.HandOver())
	}
	if err := f.env.CacheOf(t, set("a")).Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}}); err != nil {
		t.Fatal(err)
	}
	if err := f.Reconcile(t.Context(), types.NamespacedName{Namespace: "ns", Name: "pod"}); err == nil {
		t.Error("something else is taken for an owner")
	}
}

func TestFreshOwnersWaitForTheirCaches(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		f := newBench(t, func(o *Options[*appsv1.ReplicaSet]) { o.RequireFresh = fresh }, set("a"))
		f.WroteOwner(set("a"), set("a", at("11")))
		err := f.Reconcile(t.Context(), reconcile.KeyOf(set("a")))
		if reconcile.IsExpected(err) != fresh || (len(f.worked) == 0) != fresh || (len(f.stale) == 1) != fresh {
			t.Errorf("fresh %v: got %v, worked on %v, stale %v", fresh, err, f.worked, f.stale)
		}
		if settled := f.Settled(set("a")); settled == fresh {
			t.Errorf("fresh %v: settled %v", fresh, settled)
		}
		f.env.Cache(t, set("a", at("11")))
		if err := f.Reconcile(t.Context(), reconcile.KeyOf(set("a"))); err != nil {
			t.Errorf("fresh %v: got %v", fresh, err)
		}
	}
}

// However often an owner was skipped, it is looked at before long once the caches have caught up, also if no event says
// so. Pins WL-113.
func TestAnOwnerThatWasSkippedOftenIsLookedAtSoon(t *testing.T) {
	f := newBench(t, func(o *Options[*appsv1.ReplicaSet]) {
		o.RequireFresh, o.Loop.Ready = true, func(context.Context) bool { return true }
	}, set("a"))
	f.WroteOwner(set("a"), set("a", at("11")))
	f.env.Run(t, f.Owners)
	f.Loop.Add(reconcile.KeyOf(set("a")))
	for n := range uint64(20) {
		f.env.EventuallyAsTimePasses(t, "the owner is looked at", reconcile.RecheckAfter, func() bool { return f.Loop.Inspect().Reconciled > n })
	}
	f.env.Cache(t, set("a", at("11")))
	caughtUp := f.env.Clock.Now()
	f.env.EventuallyAsTimePasses(t, "it is no longer skipped", time.Second, func() bool { return f.Loop.Retries(reconcile.KeyOf(set("a"))) == 0 })
	if took := f.env.Clock.Since(caughtUp); took > 10*reconcile.RecheckAfter { // the clock also moves on while the test waits
		t.Errorf("it took %v", took)
	}
}

// An owner that was deleted while it was reconciled is no failure; that something else does not exist is one. Pins MGR-198.
func TestAnOwnerThatIsDeletedMeanwhileIsNoFailure(t *testing.T) {
	gone := func(name string) error {
		return fmt.Errorf("updating the status of %s: %w", name, apierrors.NewNotFound(setResource, name))
	}
	ofAProxy := apierrors.NewGenericServerResponse(http.StatusNotFound, "PUT", setResource, "a", "404 page not found", 0, true)
	conflict := apierrors.NewConflict(podResource, "pod", errors.New("changed"))
	for name, tc := range map[string]struct {
		err      error
		expected bool
	}{
		"the owner":                {gone("a"), true},
		"the owner and a conflict": {errors.Join(gone("a"), conflict), true},
		"the owner and a failure":  {errors.Join(gone("a"), errors.New("boom")), false},
		"a namesake's dependent":   {apierrors.NewNotFound(podResource, "a"), false},
		"another owner":            {gone("b"), false},
		"its namespace":            {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "a"), false},
		"the page of a proxy":      {ofAProxy, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newBench(t, nil, set("a"))
			f.fail = tc.err
			err := f.Reconcile(t.Context(), reconcile.KeyOf(set("a")))
			if !errors.Is(err, tc.err) || reconcile.IsExpected(err) != tc.expected {
				t.Errorf("got %v, which is expected: %t, want %t", err, reconcile.IsExpected(err), tc.expected)
			}
		})
	}
}

// The event that was waited for is no echo. Pins WL-103.
func TestTheEchoThatASkippedReconcileWaitsForQueuesTheOwner(t *testing.T) {
	f := newBench(t, func(o *Options[*appsv1.ReplicaSet]) {
		o.RequireFresh, o.MayIgnoreEcho = true, func(_, _ *appsv1.ReplicaSet) bool { return true }
	}, set("a"))
	for i, skips := range []bool{true, false} {
		was, is := set("a", at(fmt.Sprint(10+i))), set("a", at(fmt.Sprint(11+i)))
		f.WroteStatus(was, is)
		if skips {
			if err := f.Reconcile(t.Context(), reconcile.KeyOf(was)); !reconcile.IsExpected(err) {
				t.Fatalf("got %v, want a stale cache", err)
			}
		}
		f.env.Cache(t, is)
		f.Updated(reconcile.Fresh, was, is)
		f.queued.WantInAnyOrder(t, slices.Repeat([]string{"a"}, map[bool]int{true: 1}[skips])...)
		if err := f.Reconcile(t.Context(), reconcile.KeyOf(was)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNewestOwnersStartFromTheirLastWrite(t *testing.T) {
	for newest, want := range map[bool]string{true: "11", false: "10"} {
		f := newBench(t, func(o *Options[*appsv1.ReplicaSet]) { o.FromLastWrite = newest }, set("a"))
		f.WroteStatus(set("a"), set("a", at("11")))
		if err := f.Reconcile(t.Context(), reconcile.KeyOf(set("a"))); err != nil || f.worked[0].ResourceVersion != want {
			t.Errorf("newest %v: got %v, worked on %v", newest, err, f.worked)
		}
	}
}

// Pins WL-116.
func TestOwnersAreQueuedForWhenTheyCanGoOn(t *testing.T) {
	f := newBench(t, nil)
	if f.PutOff(set("a"), 1, writes.CountsWindow) {
		t.Error("the first status is put off")
	}
	f.WroteStatus(set("a"), set("a", at("11")))
	if !f.PutOff(set("a"), 1, writes.CountsWindow) {
		t.Error("the second status is not put off")
	}
	f.queued.WantInAnyOrder(t, "a in 300ms")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}
	f.env.Cache(t, pod)
	f.Writes.Deleting(set("a"), podResource, pod)
	if f.Settled(set("a")) {
		t.Error("settled before the deletion is seen")
	}
	f.queued.WantInAnyOrder(t, "a in 5m0s")
	f.Writes.Hold(set("b"), time.Minute)
	f.queued.WantInAnyOrder(t, "b in 1m0s")
}

func TestASuccessorWaitsForWhatWasWritten(t *testing.T) {
	f := newBench(t, nil)
	f.Writes.Hold(set("a"), time.Hour)
	f.env.Succeed(f.HandOver())
	successor := New(f.env.Env, f.options, func(context.Context, *appsv1.ReplicaSet) error { return nil })
	ended, end := context.WithCancel(t.Context())
	end()
	if err := successor.Run(ended); err != nil || successor.Settled(set("a")) {
		t.Errorf("got %v, settled %v", err, successor.Settled(set("a")))
	}
	if left := f.env.Succession.HandOver(); len(left.(writes.State)) != 1 {
		t.Errorf("left to the next is %v", left)
	}
}
