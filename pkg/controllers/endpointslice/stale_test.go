package endpointslice

import (
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/services/slicewrites"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins EPS-18, EPS-23 and EPS-24.
func TestStaleCacheIsNotActedOn(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1)).begin(t)
	b.c.written.Tracker.Update(testSlice("written")) // which the cache lacks
	stale := syncs(t, "stale")
	err := b.Reconcile()
	if !reconcile.IsExpected(err) || err.Error() != "EndpointSlice informer cache is out of date" {
		t.Fatalf("error is %v", err)
	}
	if syncs(t, "stale") != stale+1 || len(b.RecordedEvents()) != 0 || len(b.Writes()) != 0 {
		t.Error("a stale cache must be counted as stale, without event and write")
	}
	if len(b.c.triggers.ServiceStates) != 0 {
		t.Error("the times of the last changes were taken")
	}
}

// Pins EPS-83.
func TestACreatedSliceIsLookedForLater(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1))
	queue := &controllertest.Queue[types.NamespacedName]{}
	b.c.serviceQueue = queue
	b.begin(t)
	for _, created := range []bool{true, false} {
		b.MustReconcile(t)
		if got := slices.Contains(queue.Take(), "n/web in 10s"); got != created { // the handler may queue it, too
			t.Errorf("queued for later: %v, want %v", got, created)
		}
		b.observed(t)
	}
}

// What delays it is the backoff. Pins EPS-15 and EPS-83.
func TestASliceThatCouldNotBeCreatedIsNotLookedFor(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1))
	queue := &controllertest.Queue[types.NamespacedName]{}
	b.c.serviceQueue = queue
	b.begin(t)
	b.Refuse("create endpointslices", apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "s", errors.New("exceeded quota")))
	queue.Take()
	if err := b.Reconcile(); err == nil {
		t.Fatal("it was created")
	}
	if got := queue.Take(); slices.Contains(got, "n/web in 10s") {
		t.Errorf("queued are %q", got)
	}
}

// The cache has missed both that a slice was created and that it was deleted. Pins EPS-84.
func TestASliceThatTheCacheNeverShows(t *testing.T) {
	for name, tc := range map[string]struct {
		deleted bool
		version string // of the cache
		want    []string
	}{
		"it is gone":            {deleted: true, version: "9999", want: []string{"create"}},
		"the cache is behind":   {deleted: true, version: "1"},
		"the cache is deceived": {version: "9999"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults)
			b.Cache(t, testService(), testNode("node-a", "zone-a"), testPod(1))
			must.Succeed(t, b.c.begin(b.Context()))
			b.EmptyCache(t, testSlice("none"), "1")
			b.MustReconcile(t)
			if created := b.one(t); tc.deleted {
				must.Succeed(t, b.Fake.Tracker().Delete(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), "n", created.Name))
			}
			b.Fake.ClearActions()
			b.EmptyCache(t, testSlice("none"), tc.version)
			if err := b.Reconcile(); (err == nil) != (tc.want != nil) || err != nil && !errors.Is(err, slicewrites.ErrStaleCache) {
				t.Errorf("error is %v", err)
			}
			if got := b.WriteVerbs(); !slices.Equal(got, tc.want) {
				t.Errorf("writes are %v, want %v", got, tc.want)
			}
		})
	}
}

// A slice is deleted before the answer to its creation comes. The inputs are those on which it was created, and no
// inputs that need no writes. Pins EPS-64.
func TestSliceThatIsDeletedBeforeTheAnswerIsCreatedAgain(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1)).begin(t)
	var once sync.Once
	created := testSlice("web-1")
	b.Fake.PrependReactor("create", "endpointslices", func(clienttesting.Action) (first bool, _ runtime.Object, _ error) {
		once.Do(func() {
			first = true
			b.c.sliceFuncs().Add(reconcile.Fresh, created)
			b.c.sliceFuncs().Delete(created)
		})
		return first, created, nil
	})
	b.Requests()
	b.MustReconcile(t)
	b.MustReconcile(t)
	b.one(t)
	b.WantRequests(t, "create endpointslices", "create endpointslices")
}

// Pins EPS-69.
func TestAServiceWhoseSliceIsDeletedBeforeTheAnswerIsReconciledAgain(t *testing.T) {
	for name, deleted := range map[string]bool{"deleted": true, "not deleted": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults)
			queue := &controllertest.Queue[types.NamespacedName]{}
			b.c.serviceQueue = queue
			b.Cache(t, testService(), testNode("node-a", "zone-a"), testPod(1), testSlice("s"))
			must.Succeed(t, b.c.begin(b.Context()))
			b.Fake.PrependReactor("update", "endpointslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
				updated := action.(clienttesting.UpdateAction).GetObject().(*discoveryv1.EndpointSlice).DeepCopy()
				updated.ResourceVersion, updated.Generation = "9", 2
				if deleted {
					b.c.sliceFuncs().Delete(updated)
					queue.Take()
				}
				return true, updated, nil
			})
			b.MustReconcile(t)
			if got := queue.Take(); (len(got) > 0) != deleted {
				t.Errorf("queued are %q", got)
			}
		})
	}
}

// TestNothingIsMovedIntoASliceThatMayBeGone: the cache shows two slices with the same endpoint, one of which was
// deleted without an answer. Pins EPS-85.
func TestNothingIsMovedIntoASliceThatMayBeGone(t *testing.T) {
	for name, executed := range map[string]bool{"it is gone": true, "it was not deleted": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults)
			b.Cache(t, testService(), testNode("node-a", "zone-a"), testPod(1))
			must.Succeed(t, b.c.begin(b.Context()))
			b.MustReconcile(t)
			one := b.one(t)
			another := one.DeepCopy()
			another.Name, another.UID = "another", "another"
			must.Succeed(t, b.Fake.Tracker().Add(another))
			b.Cache(t, one, another)
			b.Fake.PrependReactor("delete", "endpointslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if executed {
					deleted := action.(clienttesting.DeleteAction).GetName()
					must.Succeed(t, b.Fake.Tracker().Delete(action.GetResource(), "n", deleted))
				}
				return true, nil, io.ErrUnexpectedEOF
			})
			b.Fake.ClearActions()
			if err := b.Reconcile(); err == nil || !slices.Equal(b.WriteVerbs(), []string{"delete"}) {
				t.Fatalf("error is %v after %v", err, b.WriteVerbs())
			}
			b.Fake.ClearActions()
			if err := b.Reconcile(); errors.Is(err, slicewrites.ErrStaleCache) != executed {
				t.Errorf("error is %v", err)
			}
			if wrote := len(b.WriteVerbs()) > 0; wrote == executed {
				t.Errorf("writes are %v", b.WriteVerbs())
			}
		})
	}
}
