package garbagecollector

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins GC-54 and GC-101.
func TestOrphaning(t *testing.T) {
	for name, refusal := range map[string]error{
		"an error": errors.New("boom"),
		"a webhook says that the dependent does not exist": apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "child"),
	} {
		t.Run(name, func(t *testing.T) { testOrphaning(t, refusal) })
	}
}

func testOrphaning(t *testing.T, refusal error) {
	parent := typed(configMaps, object("a", "parent", deleted(orphan)))
	child := typed(secrets, object("a", "child", owner("ConfigMap", "parent")))
	lostChild := object("a", "lost", owner("ConfigMap", "parent"))
	w := newWorld(t, parent, child)
	for _, change := range []*change{added(secrets, child), added(secrets, lostChild), added(configMaps, parent)} {
		w.graph.apply(change)
	}
	fails := true
	w.server.PrependReactor("patch", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if name := a.(clienttesting.PatchAction).GetName(); name == "child" && fails {
			return true, nil, refusal
		}
		return false, nil, nil
	})
	if err := w.attemptToOrphan(t.Context(), w.node("parent")); err == nil {
		t.Error("the failure is not reported")
	}
	if slices.ContainsFunc(w.writes(), func(s string) bool { return strings.HasPrefix(s, "patch parent") }) {
		t.Error("the owner was released before its dependents")
	}
	fails = false
	if err := w.attemptToOrphan(t.Context(), w.node("parent")); err != nil {
		t.Errorf("a dependent that is gone stops it: %v", err)
	}
	if last := w.writes(); last[len(last)-1] != `patch parent {"metadata":{"finalizers":null,"resourceVersion":"1"}}` {
		t.Errorf("the last write is %s", last[len(last)-1])
	}
}

// TestDependentsOfAKindThatIsListedLateAreOrphanedToo restarts the collector while an owner is about to be released,
// and one kind cannot be listed for longer than the workers wait. Pins GC-114.
func TestDependentsOfAKindThatIsListedLateAreOrphanedToo(t *testing.T) {
	w := newWorld(t, typed(configMaps, object("a", "parent", deleted(orphan))),
		typed(secrets, object("a", "child", owner("ConfigMap", "parent"))))
	var listed atomic.Bool
	w.server.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !listed.Load(), nil, errors.New("conversion webhook failed")
	})
	w.env.Run(t, w.collector)
	w.env.EventuallyAsTimePasses(t, "the owner has been worked on", time.Second, func() bool {
		return w.startWorker.isOpen() && (w.orphan.loop.Retries(w.node("parent")) > 2 || len(w.writes()) > 0)
	})
	if writes := w.writes(); len(writes) > 0 {
		t.Errorf("before secrets are listed: %q", writes)
	}
	listed.Store(true)
	controllertest.Eventually(t, "secrets are listed", func() bool { return w.monitors.synced(secrets.resource) })
	w.env.EventuallyAsTimePasses(t, "the owner is released", time.Second, func() bool {
		return slices.Contains(w.writes(), `patch parent {"metadata":{"finalizers":null,"resourceVersion":"1"}}`)
	})
	if first := w.writes()[0]; !strings.HasPrefix(first, "patch child ") {
		t.Errorf("the first write is %s", first)
	}
}

// TestWhatCannotBeListedDelaysOrphaningForAWhile, and what is gone does not. Pins GC-114.
func TestWhatCannotBeListedDelaysOrphaningForAWhile(t *testing.T) {
	gone := func(w *world) {
		w.server.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, noResource()
		})
	}
	for name, tc := range map[string]struct {
		given func(*world)
		want  bool // whether the owner is released
	}{
		"GC-114: its informer has not synced":       {func(*world) {}, false},
		"GC-114: for almost five minutes":           {func(w *world) { w.env.Clock.Step(maxUnlisted - time.Second) }, false},
		"GC-114: for five minutes":                  {func(w *world) { w.env.Clock.Step(maxUnlisted) }, true},
		"GC-114: the API server has no such kind":   {gone, true},
		"GC-114: the graph has all that it has had": {func(w *world) { w.monitors.nowInGraph(slices.Collect(maps.Values(w.monitors.byResource))) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			parent := typed(configMaps, object("a", "parent", deleted(orphan)))
			w := newWorld(t, parent)
			w.graph.apply(added(configMaps, parent))
			if err := w.monitors.add(newMonitored(secrets.resource, "Secret")); err != nil {
				t.Fatal(err)
			}
			tc.given(w)
			err := w.attemptToOrphan(t.Context(), w.node("parent"))
			if released := len(w.writes()) > 0; released != tc.want || tc.want != (err == nil) || !tc.want && !reconcile.IsRequeue(err) {
				t.Errorf("the owner is released: %v, error %v", released, err)
			}
		})
	}
}

// Pins GC-52.
func TestFinalizerConflicts(t *testing.T) {
	parent := typed(configMaps, object("a", "parent", deleted(foreground)))
	w := newWorld(t, parent)
	w.graph.apply(added(configMaps, parent))
	w.server.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "parent", errors.New("changed"))
	})
	err := w.attemptToDelete(t.Context(), w.node("parent"))
	want := "updateMaxRetries(4) has reached. The garbage collector will retry later for owner [v1/ConfigMap, namespace: a, name: parent, uid: parent]"
	if err == nil || err.Error() != want || len(w.writes()) != 4 {
		t.Errorf("after %d writes: %v", len(w.writes()), err)
	}
}

// A finalizer is removed from the state in the cache, and only if that is outdated from one that is read.
// Pins GC-99.
func TestFinalizersAreRemovedWithoutARead(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "parent", errors.New("changed"))
	for name, tc := range map[string]struct {
		first error // of the first patch
		want  []string
	}{
		"the cache is up to date": {nil, []string{"patch"}},
		"the cache is behind":     {conflict, []string{"patch", "get", "patch"}},
		"it is gone":              {apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "parent"), []string{"patch", "get"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, typed(configMaps, object("a", "parent", deleted("x", foreground))))
			var refused atomic.Bool
			w.server.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				if apierrors.IsNotFound(tc.first) {
					_ = w.server.Tracker().Delete(configMaps.resource, "a", "parent")
				}
				return tc.first != nil && refused.CompareAndSwap(false, true), nil, tc.first
			})
			w.env.Run(t, w.collector)
			w.settle(t)
			var got []string
			controllertest.Eventually(t, "the finalizer is removed", func() bool {
				got = nil
				for _, action := range w.server.Actions() {
					if verb := action.GetVerb(); verb != "list" && verb != "watch" {
						got = append(got, verb)
					}
				}
				return len(got) >= len(tc.want)
			})
			if !slices.Equal(got, tc.want) {
				t.Errorf("the requests are %q, want %q", got, tc.want)
			}
			for _, write := range w.writes() {
				if want := `patch parent {"metadata":{"finalizers":["x"],"resourceVersion":"1"}}`; write != want {
					t.Errorf("the write is %s, want %s", write, want)
				}
			}
		})
	}
}

// The finalizer was removed, and a second request to delete the object has brought it back. The watch was interrupted
// meanwhile, so that both are one update, in which nothing seems to have changed.
//
// Pins GC-107.
func TestAFinalizerThatComesBackUnseen(t *testing.T) {
	again := func(m *metav1.ObjectMeta) { m.ResourceVersion = "3" }
	for name, tc := range map[string]struct {
		finalizer string
		try       func(*world, context.Context, *node) error
		want      string
	}{
		"GC-107: foreground": {foreground, func(w *world, ctx context.Context, n *node) error {
			return w.attemptToDelete(ctx, n)
		}, "attempt ConfigMap a/parent"},
		"GC-107: orphan": {orphan, func(w *world, ctx context.Context, n *node) error {
			return w.attemptToOrphan(ctx, n)
		}, "orphan ConfigMap a/parent"},
	} {
		t.Run(name, func(t *testing.T) {
			before := typed(configMaps, object("a", "parent", deleted("x", tc.finalizer)))
			w := newWorld(t, before)
			w.graph.apply(added(configMaps, before))
			var got string
			m := newMonitors(w.Informers, w.Clock, w.graph.knows, func(c *change) { got += told(w.graph.apply(c)) })
			if err := tc.try(w, t.Context(), w.node("parent")); err != nil {
				t.Fatal(err)
			}
			if writes := w.writes(); len(writes) != 1 {
				t.Fatalf("the writes are %q", writes)
			}
			back := object("a", "parent", deleted("x", tc.finalizer), again)
			handler{m, configMaps}.OnUpdate(before, back)
			if got != tc.want {
				t.Errorf("the update has %q done, want %q", got, tc.want)
			}
			got = ""
			handler{m, configMaps}.OnUpdate(back, object("a", "parent", deleted("x")))
			handler{m, configMaps}.OnUpdate(object("a", "parent", deleted("x")), object("a", "parent", deleted("x"), again))
			if got != "" {
				t.Errorf("without the finalizer, %q is done", got)
			}
			if !w.graph.knows(back) {
				t.Error("updates that change nothing are still looked at")
			}
		})
	}
}

// An admission webhook puts the owner back into the dependent, which would be deleted with the owner. Pins GC-117.
func TestAnOwnerWhoseDependentKeepsItIsNotReleased(t *testing.T) {
	parent := typed(configMaps, object("a", "parent", deleted(orphan)))
	child := typed(secrets, object("a", "child", owner("ConfigMap", "parent")))
	w := newWorld(t, parent, child)
	w.graph.apply(added(secrets, child))
	w.graph.apply(added(configMaps, parent))
	keeps := true
	w.server.PrependReactor("patch", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return keeps, child, nil
	})
	if err := w.attemptToOrphan(t.Context(), w.node("parent")); !errors.Is(err, errStillOwned) {
		t.Errorf("the error is %v", err)
	}
	if writes := w.writes(); len(writes) != 1 {
		t.Errorf("writes are %q", writes)
	}
	keeps = false
	if err := w.attemptToOrphan(t.Context(), w.node("parent")); err != nil {
		t.Error(err)
	}
	if writes := w.writes(); writes[len(writes)-1] != `patch parent {"metadata":{"finalizers":null,"resourceVersion":"1"}}` {
		t.Errorf("writes are %q", writes)
	}
}

// While its dependents cannot be orphaned, the user changes their mind about what is to become of them. Pins GC-119.
func TestAnOwnerThatIsNotToOrphanItsDependentsAnyMore(t *testing.T) {
	for name, tc := range map[string]struct {
		now   []func(*metav1.ObjectMeta)
		drops bool
	}{
		"GC-119: it is deleted in the foreground":      {[]func(*metav1.ObjectMeta){deleted("x", foreground)}, true},
		"GC-119: its finalizer is removed":             {[]func(*metav1.ObjectMeta){deleted("x")}, true},
		"GC-119: it is restored, and not deleted":      {nil, true},
		"GC-119: it still is to orphan its dependents": {[]func(*metav1.ObjectMeta){deleted("x", "y", orphan)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := typed(configMaps, object("a", "parent", tc.now...))
			child := typed(secrets, object("a", "child", owner("ConfigMap", "parent")))
			w := newWorld(t, now, child)
			w.graph.apply(added(secrets, child))
			w.graph.apply(added(configMaps, object("a", "parent", deleted("x", orphan))))
			must.Succeed(t, w.monitors.start(t.Context(), map[schema.GroupVersionResource]*monitored{configMaps.resource: configMaps}))
			controllertest.Eventually(t, "the cache shows it", func() bool {
				_, cached := w.monitors.cached(configMaps.resource, configMaps.identityOf(now))
				return cached
			})
			w.monitors.nowInGraph(slices.Collect(maps.Values(w.monitors.byResource)))
			if err := w.attemptToOrphan(t.Context(), w.node("parent")); err != nil {
				t.Error(err)
			}
			if writes := w.writes(); tc.drops == (len(writes) > 0) {
				t.Errorf("the writes are %q", writes)
			}
		})
	}
}
