package endpointslicemirroring

import (
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins EPM-16 and EPM-49.
func TestStaleCacheIsWaitedFor(t *testing.T) {
	b := newBench(t, defaults, testService(nil), oneAddress()).begin(t)
	b.c.written.Tracker.Update(sliceOf("unseen", oneAddress()))
	err := b.Reconcile()
	if !reconcile.IsExpected(err) || err.Error() != "EndpointSlice informer cache is out of date" {
		t.Fatalf("error is %v", err)
	}
	slice := sliceOf("unseen", oneAddress())
	b.c.sliceFuncs().Add(reconcile.Fresh, slice)
	if s := b.c.loop.Inspect(); s.Depth != 1 || s.Backlog != 0 {
		t.Errorf("queued when the write is seen: %+v, want the key, fresh", s)
	}
}

// Pins EPM-16.
func TestADeletionThatTheCacheDoesNotShowIsWaitedFor(t *testing.T) {
	b := newBench(t, defaults, testService(nil), testEndpoints(), sliceOf("a", oneAddress())).begin(t)
	b.Requests()
	b.MustReconcile(t)
	b.WantRequests(t, "delete endpointslices a")
	if err := b.Reconcile(); !reconcile.IsExpected(err) || err == nil {
		t.Errorf("error is %v", err)
	}
	b.WantRequests(t)
}

// TestTerminatingSliceIsNotWaitedFor: a finalizer can keep it for ever.
// Pins EPM-44.
func TestTerminatingSliceIsNotWaitedFor(t *testing.T) {
	stuck := sliceOf("stuck", oneAddress(), func(s *discoveryv1.EndpointSlice) {
		s.DeletionTimestamp, s.Finalizers = ptr.To(metav1.Now()), []string{"x/y"}
	})
	b := newBench(t, defaults, testService(nil), oneAddress(), stuck).begin(t)
	b.c.written.Tracker.ExpectDeletion(stuck)
	b.MustReconcile(t)
	if got := b.stored(t); len(got) != 2 {
		t.Errorf("%d slices, want the stuck one and another", len(got))
	}
}

// A cache may not show yet the Endpoints or the Service that the slices are for.
// Pins EPM-45.
func TestSlicesStayWhileOnlyACacheLacksWhatTheyMirror(t *testing.T) {
	service, endpoints := testService(nil), oneAddress()
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		cached []runtime.Object
		live   map[string]runtime.Object
		err    error
		stays  bool
	}{
		"the Endpoints are there":      {[]runtime.Object{service}, map[string]runtime.Object{"endpoints": endpoints, "services": service}, nil, true},
		"the Service is there":         {[]runtime.Object{endpoints}, map[string]runtime.Object{"endpoints": endpoints, "services": service}, nil, true},
		"both are there":               {nil, map[string]runtime.Object{"endpoints": endpoints, "services": service}, nil, true},
		"the Service has a selector":   {nil, map[string]runtime.Object{"endpoints": endpoints, "services": testService(map[string]string{"a": "b"})}, nil, false},
		"the Endpoints are skipped":    {nil, map[string]runtime.Object{"endpoints": oneAddress(func(e *corev1.Endpoints) { e.Labels[discoveryv1.LabelSkipMirror] = "true" }), "services": service}, nil, false},
		"the Endpoints are gone":       {[]runtime.Object{service}, nil, nil, false},
		"the Service is gone":          {[]runtime.Object{endpoints}, nil, nil, false},
		"the API server does not tell": {nil, nil, boom, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, append(tc.cached, sliceOf("ours", oneAddress()))...).begin(t)
			for _, resource := range []string{"endpoints", "services"} {
				b.Fake.PrependReactor("get", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
					return tc.live[resource] != nil || tc.err != nil, tc.live[resource], tc.err
				})
			}
			if err := b.Reconcile(); !errors.Is(err, tc.err) {
				t.Errorf("error is %v, want %v", err, tc.err)
			}
			if stays := len(b.stored(t)) == 1; stays != tc.stays {
				t.Errorf("the slice stays: %v", stays)
			}
		})
	}
}

// What only the API server shows may be gone before the cache has shown it, and then no event says so.
// Pins EPM-45.
func TestSlicesOfAServiceThatTheCacheNeverShowsGo(t *testing.T) {
	b := newBench(t, defaults, oneAddress(), sliceOf("ours", oneAddress()))
	var gone atomic.Bool
	b.Fake.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !gone.Load(), testService(nil), nil
	})
	b.run(t)
	b.AwaitIdle(t)
	if len(b.stored(t)) != 1 {
		t.Fatal("the slice is gone")
	}
	gone.Store(true)
	b.EventuallyAsTimePasses(t, "the slice is gone", reconcile.RecheckAfter, func() bool { return len(b.stored(t)) == 0 })
}

// The cache comes to show what was written while it is found out that the Endpoints are not mirrored any more. Pins
// EPM-60.
func TestSlicesThatAreShownDuringACleanupGoToo(t *testing.T) {
	for name, cached := range map[string]bool{"one of two": true, "the only one": false} {
		t.Run(name, func(t *testing.T) {
			endpoints := oneAddress()
			shown, late := sliceOf("shown", endpoints), sliceOf("late", endpoints)
			b := newBench(t, defaults, testService(map[string]string{"app": "web"}), endpoints, shown, late)
			b.Cache(t, testService(map[string]string{"app": "web"}), endpoints)
			if cached {
				b.Cache(t, shown)
			}
			b.c.written.Tracker.Update(late) // by the answer to its creation
			show := sync.OnceFunc(func() {
				b.Cache(t, late)
				b.c.sliceFuncs().Add(reconcile.Fresh, late)
			})
			b.Intercept("get endpoints", func(clienttesting.Action) error {
				show()
				return nil
			})
			if err := b.Reconcile(); err != nil && !reconcile.IsExpected(err) {
				t.Fatal(err)
			}
			show()
			if b.c.loop.Inspect().Depth == 0 {
				t.Error("nothing is queued for the slice that the cache shows now")
			}
			b.MustReconcile(t)
			if stored := controllertest.Names(b.stored(t)); slices.Contains(stored, "late") {
				t.Errorf("stored are %v", stored)
			}
		})
	}
}

// TestAnnotationThatChangesBack: the cache still shows the slice with the first value, so all seems well, and no
// generation tells when it comes to show the second. Pins EPM-33 and EPM-53.
func TestAnnotationThatChangesBack(t *testing.T) {
	noted := func(note string) *corev1.Endpoints {
		return oneAddress(func(e *corev1.Endpoints) { e.Annotations = map[string]string{"note": note} })
	}
	first := sliceOf("s", noted("a"))
	b := newBench(t, defaults, testService(nil), noted("a"), first).begin(t)
	b.Fake.PrependReactor("update", "endpointslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		updated := action.(clienttesting.UpdateActionImpl).Object.(*discoveryv1.EndpointSlice).DeepCopy()
		updated.UID, updated.Generation, updated.ResourceVersion = first.UID, first.Generation, b.NextVersion()
		return true, updated, b.Fake.Tracker().Update(action.GetResource(), updated, updated.Namespace)
	})
	b.MustReconcile(t)
	b.Cache(t, noted("b"))
	b.MustReconcile(t)
	second := b.stored(t)[0].DeepCopy()
	if got := second.Annotations["note"]; got != "b" {
		t.Fatalf("note is %q", got)
	}
	b.observed(t)
	b.Cache(t, noted("a"), first) // the latter lags
	if err := b.Reconcile(); !reconcile.IsExpected(err) {
		t.Fatalf("error is %v, want a stale cache", err)
	}
	b.Cache(t, second)
	b.c.sliceFuncs().Update(reconcile.Fresh, first, second)
	if got := b.c.loop.Inspect(); got.Depth == 0 || got.Backlog == got.Depth {
		t.Errorf("queued when the write is seen: %+v, want the key, fresh", got)
	}
	b.MustReconcile(t)
	if got := b.stored(t)[0].Annotations["note"]; got != "a" {
		t.Errorf("note is %q", got)
	}
}

// TestAnnotationThatChangesBackAfterAnUpdateWithoutAnAnswer: nobody knows whether it was executed, and the cache does
// not show it yet. Pins EPM-58.
func TestAnnotationThatChangesBackAfterAnUpdateWithoutAnAnswer(t *testing.T) {
	noted := func(note string) *corev1.Endpoints {
		return oneAddress(func(e *corev1.Endpoints) { e.Annotations = map[string]string{"note": note} })
	}
	first := sliceOf("s", noted("a"))
	b := newBench(t, defaults, testService(nil), noted("a"), first).begin(t)
	var lost error
	b.Fake.PrependReactor("update", "endpointslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		updated := action.(clienttesting.UpdateActionImpl).Object.(*discoveryv1.EndpointSlice).DeepCopy()
		updated.UID, updated.Generation, updated.ResourceVersion = first.UID, first.Generation, b.NextVersion()
		must.Succeed(t, b.Fake.Tracker().Update(action.GetResource(), updated, updated.Namespace))
		return true, updated, lost
	})
	b.MustReconcile(t)
	b.Cache(t, noted("b"))
	lost = io.ErrUnexpectedEOF
	if err := b.Reconcile(); !errors.Is(err, lost) {
		t.Fatalf("error is %v", err)
	}
	lost = nil
	b.observed(t)
	second := b.stored(t)[0].DeepCopy()
	b.Cache(t, noted("a"), first) // the latter lags
	b.MustReconcile(t)
	b.Cache(t, second)
	b.c.sliceFuncs().Update(reconcile.Fresh, first, second)
	if got := b.c.loop.Inspect(); got.Depth == 0 || got.Backlog == got.Depth {
		t.Errorf("queued when the write is seen: %+v, want the key, fresh", got)
	}
	b.MustReconcile(t)
	if got := b.stored(t)[0].Annotations["note"]; got != "a" {
		t.Errorf("note is %q", got)
	}
}

// Pins EPM-63.
func TestACreatedSliceIsLookedForLater(t *testing.T) {
	b := newBench(t, defaults, testService(nil), oneAddress())
	queue := &controllertest.Queue[types.NamespacedName]{}
	b.c.queue = queue
	b.begin(t)
	for _, created := range []bool{true, false} {
		b.MustReconcile(t)
		if got := slices.Contains(queue.Take(), "n/web in 10s"); got != created {
			t.Errorf("queued for later: %v, want %v", got, created)
		}
		b.observed(t)
	}
}

// TestASliceIsDeletedWhileItIsLookedAt: nobody will report it once more. Pins EPM-56.
func TestASliceIsDeletedWhileItIsLookedAt(t *testing.T) {
	found := sliceOf("found", oneAddress())
	b := newBench(t, defaults, testService(nil), oneAddress(), found).begin(t)
	informer := b.Env.Informers.Discovery().V1().EndpointSlices().Informer()
	listed := false
	b.c.slices = index.NewEndpointSlices(afterList{informer, func() {
		if !listed {
			listed = true
			must.Succeed(t, informer.GetIndexer().Delete(found))
			b.c.sliceFuncs().Delete(found)
		}
	}})
	b.MustReconcile(t)
	if s := b.c.loop.Inspect(); !listed || s.Depth != 1 || s.Backlog != 0 {
		t.Errorf("listed %v, queued after that: %+v, want the key, fresh", listed, s)
	}
	b.MustReconcile(t)
	if got := b.WriteVerbs(); !slices.Equal(got, []string{"create"}) {
		t.Errorf("writes are %v, want another slice to be created", got)
	}
}

// afterList is an informer whose cache calls then after each list by an index.
type afterList struct {
	cache.SharedIndexInformer
	then func()
}

func (i afterList) GetIndexer() cache.Indexer {
	return listing{i.SharedIndexInformer.GetIndexer(), i.then}
}

type listing struct {
	cache.Indexer
	then func()
}

func (l listing) ByIndex(name, value string) ([]any, error) {
	defer l.then()
	return l.Indexer.ByIndex(name, value)
}

// Somebody else may have taken a slice over, or changed it, without the cache showing that. Pins EPM-62.
func TestOnlySlicesAsTheCacheShowsThemAreWritten(t *testing.T) {
	ours := sliceOf("a", oneAddress())
	taken := sliceOf("a", oneAddress(), func(s *discoveryv1.EndpointSlice) {
		s.Labels[discoveryv1.LabelManagedBy], s.OwnerReferences, s.ResourceVersion = "somebody", nil, "2"
	})
	changed := sliceOf("a", oneAddress(), func(s *discoveryv1.EndpointSlice) { s.Generation, s.ResourceVersion = 2, "2" })
	recreated := sliceOf("a", oneAddress(), func(s *discoveryv1.EndpointSlice) { s.UID = "anew" })
	another := testEndpoints(subset(80, []string{"10.0.0.2"}, nil))
	for name, tc := range map[string]struct {
		endpoints []runtime.Object
		live      *discoveryv1.EndpointSlice
		want      []string // once the cache shows it
	}{
		"clean up, taken over":          {nil, taken, nil},
		"clean up, changed":             {nil, changed, []string{"get endpoints web", "delete endpointslices a"}},
		"clean up, recreated":           {nil, recreated, []string{"get endpoints web", "delete endpointslices a"}},
		"no addresses left, taken over": {[]runtime.Object{testEndpoints()}, taken, nil},
		"another address, taken over":   {[]runtime.Object{another}, taken, []string{"create endpointslices"}},
		"another address, changed":      {[]runtime.Object{another}, changed, []string{"update endpointslices a"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, append(tc.endpoints, testService(nil), ours)...).begin(t)
			b.CheckPreconditions("endpointslices")
			b.Store(t, tc.live)
			b.observed(t)
			b.Cache(t, ours) // it lags
			if err := b.Reconcile(); !apierrors.IsConflict(err) || !reconcile.IsExpected(err) {
				t.Errorf("error is %v, want another try", err)
			}
			if got := b.stored(t); len(got) != 1 || got[0].ResourceVersion != tc.live.ResourceVersion {
				t.Fatalf("stored are %v", got)
			}
			b.Cache(t, tc.live)
			b.Requests()
			b.MustReconcile(t)
			b.WantRequests(t, tc.want...)
		})
	}
}
