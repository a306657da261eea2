package endpointslicemirroring

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/services/slicewrites"
	"kcmd.dev/test/controllertest"
)

// Pins EPM-10.
func TestServiceNotifications(t *testing.T) {
	without, with := testService(nil), testService(map[string]string{"a": "b"})
	for name, tc := range map[string]struct {
		notify func(*mirroringController)
		want   int
	}{
		"added":             {func(c *mirroringController) { c.serviceFuncs().Add(reconcile.Fresh, without) }, 1},
		"added, selector":   {func(c *mirroringController) { c.serviceFuncs().Add(reconcile.Fresh, with) }, 0},
		"deleted":           {func(c *mirroringController) { c.serviceFuncs().Delete(without) }, 1},
		"deleted, selector": {func(c *mirroringController) { c.serviceFuncs().Delete(with) }, 0},
		"gained a selector": {func(c *mirroringController) { c.serviceFuncs().Update(reconcile.Fresh, without, with) }, 1},
		"lost its selector": {func(c *mirroringController) { c.serviceFuncs().Update(reconcile.Fresh, with, without) }, 1},
		"other change":      {func(c *mirroringController) { c.serviceFuncs().Update(reconcile.Fresh, without, without) }, 0},
		"selector to empty": {func(c *mirroringController) {
			c.serviceFuncs().Update(reconcile.Fresh, with, testService(map[string]string{}))
		}, 0},
		"got empty selector": {func(c *mirroringController) {
			c.serviceFuncs().Update(reconcile.Fresh, without, testService(map[string]string{}))
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newBench(t, defaults).c
			tc.notify(c)
			if got := c.loop.Inspect().Depth; got != tc.want {
				t.Errorf("%d keys, want %d", got, tc.want)
			}
		})
	}
}

// Pins EPM-9.
func TestEndpointsNotifications(t *testing.T) {
	plain, skipped := oneAddress(), oneAddress(func(e *corev1.Endpoints) { e.Labels[discoveryv1.LabelSkipMirror] = "true" })
	for name, tc := range map[string]struct {
		notify func(*mirroringController)
		want   int
	}{
		"added":            {func(c *mirroringController) { c.endpointsFuncs().Add(reconcile.Fresh, plain) }, 1},
		"added, skipped":   {func(c *mirroringController) { c.endpointsFuncs().Add(reconcile.Fresh, skipped) }, 0},
		"changed":          {func(c *mirroringController) { c.endpointsFuncs().Update(reconcile.Fresh, plain, plain) }, 1},
		"gets skipped":     {func(c *mirroringController) { c.endpointsFuncs().Update(reconcile.Fresh, plain, skipped) }, 1},
		"skipped no more":  {func(c *mirroringController) { c.endpointsFuncs().Update(reconcile.Fresh, skipped, plain) }, 1},
		"changed, skipped": {func(c *mirroringController) { c.endpointsFuncs().Update(reconcile.Fresh, skipped, skipped) }, 0},
		"deleted":          {func(c *mirroringController) { c.endpointsFuncs().Delete(plain) }, 1},
		"deleted, skipped": {func(c *mirroringController) { c.endpointsFuncs().Delete(skipped) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := newBench(t, defaults).c
			tc.notify(c)
			if got := c.loop.Inspect().Depth; got != tc.want {
				t.Errorf("%d keys, want %d", got, tc.want)
			}
		})
	}
}

// Pins EPM-11.
func TestSliceNotifications(t *testing.T) {
	ours := sliceOf("s", oneAddress())
	generation := func(g int64) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) { s.Generation = g }
	}
	label := func(key, value string) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) { s.Labels[key] = value }
	}
	changed := func(change func(*discoveryv1.EndpointSlice)) func(*mirroringController) {
		return func(c *mirroringController) {
			c.written.Tracker.Update(ours)
			c.sliceFuncs().Update(reconcile.Fresh, ours, sliceOf("s", oneAddress(), change))
		}
	}
	for name, tc := range map[string]struct {
		notify        func(*mirroringController)
		want, backlog int
	}{
		"EPM-38: replayed": {func(c *mirroringController) { c.sliceFuncs().Add(reconcile.Backlog, ours) }, 1, 1},
		"created by us": {func(c *mirroringController) {
			c.written.Tracker.Update(ours)
			c.sliceFuncs().Add(reconcile.Fresh, ours)
		}, 0, 0},
		"of somebody else": {func(c *mirroringController) {
			c.sliceFuncs().Add(reconcile.Fresh, sliceOf("s", oneAddress(), label(discoveryv1.LabelManagedBy, "x")))
		}, 0, 0},
		"without Service":      {changed(func(s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelServiceName) }), 1, 0},
		"changed by others":    {changed(generation(2)), 1, 0},
		"as written":           {changed(generation(1)), 0, 0},
		"moved":                {changed(label(discoveryv1.LabelServiceName, "other")), 2, 0},
		"taken":                {changed(label(discoveryv1.LabelManagedBy, "x")), 1, 0},
		"deleted, not by us":   {func(c *mirroringController) { c.written.Tracker.Update(ours); c.sliceFuncs().Delete(ours) }, 1, 0},
		"deleted by us":        {func(c *mirroringController) { c.written.Tracker.ExpectDeletion(ours); c.sliceFuncs().Delete(ours) }, 0, 0},
		"deleted, not tracked": {func(c *mirroringController) { c.sliceFuncs().Delete(ours) }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := newBench(t, defaults).c
			tc.notify(c)
			if s := c.loop.Inspect(); s.Depth != tc.want || s.Backlog != tc.backlog {
				t.Errorf("%d keys, %d in the backlog, want %d, %d", s.Depth, s.Backlog, tc.want, tc.backlog)
			}
		})
	}
}

// Pins EPM-6 and EPM-11.
func TestOnlyNotificationsOfSlicesAreGathered(t *testing.T) {
	slice := sliceOf("s", oneAddress())
	changed := sliceOf("s", oneAddress(), func(s *discoveryv1.EndpointSlice) { s.Generation = 2 })
	endpoints := oneAddress()
	const batchPeriod = time.Minute
	for name, tc := range map[string]struct {
		notify func(*mirroringController)
		delay  time.Duration
	}{
		"slice added":   {func(c *mirroringController) { c.sliceFuncs().Add(reconcile.Fresh, slice) }, batchPeriod},
		"slice changed": {func(c *mirroringController) { c.sliceFuncs().Update(reconcile.Fresh, slice, changed) }, batchPeriod},
		"slice deleted": {func(c *mirroringController) {
			c.written.Tracker.Update(slice)
			c.sliceFuncs().Delete(slice)
		}, batchPeriod},
		"Service":   {func(c *mirroringController) { c.serviceFuncs().Add(reconcile.Fresh, testService(nil)) }, 0},
		"Endpoints": {func(c *mirroringController) { c.endpointsFuncs().Update(reconcile.Fresh, endpoints, endpoints) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, config{concurrentSyncs: 1, maxEndpoints: 1, batchPeriod: batchPeriod})
			tc.notify(b.c)
			keys := b.c.loop.Keys(func(string) bool { return true })
			if len(keys) != 1 {
				t.Fatalf("keys are %v, want one", keys)
			}
			if due := keys[0].Until; due.IsZero() != (tc.delay == 0) || tc.delay > 0 && !due.Equal(b.Clock.Now().Add(tc.delay)) {
				t.Errorf("due is %v, want a delay of %v", due, tc.delay)
			}
		})
	}
}

// Pins EPM-14 and EPM-27.
func TestRetryDelays(t *testing.T) {
	limiter := reconcile.Backoff[types.NamespacedName](minRetryDelay, maxRetryDelay)
	var got []time.Duration
	for range 9 {
		got = append(got, limiter.When(web))
	}
	want := []time.Duration{1, 2, 4, 8, 16, 32, 64, 100, 100}
	for i := range want {
		want[i] *= time.Second
	}
	if !slices.Equal(got, want) {
		t.Errorf("delays are %v, want %v", got, want)
	}
}

// run runs the controller until the test ends.
func (b *bench) run(t *testing.T) {
	t.Helper()
	b.Start(t)
	b.Run(t, b.c)
}

func TestRunMirrorsAndCleansUp(t *testing.T) {
	b := newBench(t, defaults, testService(nil), oneAddress())
	b.run(t)
	shows := func(want ...string) func() bool {
		return func() bool { return slices.Equal(sliceTexts(b.stored(t)), want) }
	}
	b.EventuallyAsTimePasses(t, "the slice is there", time.Second, shows("IPv4 80: 10.0.0.1"))
	b.observed(t)
	first := b.stored(t)[0].Name
	if err := b.Fake.Tracker().Delete(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), "n", first); err != nil {
		t.Fatal(err)
	}
	b.EventuallyAsTimePasses(t, "it is made again", time.Second, shows("IPv4 80: 10.0.0.1"))
	if err := b.Fake.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("endpoints"), "n", "web"); err != nil {
		t.Fatal(err)
	}
	b.EventuallyAsTimePasses(t, "it is gone", time.Second, shows())
}

// The API server may refuse because of a namespace that is gone, while there is another of its name. Pins EPM-54.
func TestRunGoesOnInANamespaceThatWasMadeAnew(t *testing.T) {
	b := newBench(t, defaults, testService(nil), oneAddress())
	ending := apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "web", errors.New("going"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	b.RefuseIf("create endpointslices", ending, func(n int) bool { return n == 1 })
	b.run(t)
	b.EventuallyAsTimePasses(t, "the slice is there", time.Second, func() bool { return len(b.stored(t)) == 1 })
}

// Pins EPM-38.
func TestRunCleansUpWhatItFinds(t *testing.T) {
	skipped := oneAddress(func(e *corev1.Endpoints) { e.Labels[discoveryv1.LabelSkipMirror] = "true" })
	b := newBench(t, defaults, testService(map[string]string{"a": "b"}), skipped, sliceOf("left", oneAddress()))
	b.run(t)
	controllertest.Eventually(t, "the slice is gone", func() bool { return len(b.stored(t)) == 0 })
}

// An admission webhook refuses a deletion as if there were nothing to delete. Pins EPM-65.
func TestRunDeletesASliceAgainThatIsSaidToBeGone(t *testing.T) {
	left := sliceOf("left", oneAddress(), func(s *discoveryv1.EndpointSlice) {
		s.AddressType = discoveryv1.AddressTypeIPv6
		s.Endpoints[0].Addresses = []string{"2001:db8::1"}
	})
	for name, others := range map[string][]runtime.Object{
		"there are no Endpoints": nil, "there are, without such an address": {testService(nil), oneAddress()},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, append(others, left)...)
			notFound := apierrors.NewNotFound(discoveryv1.Resource("endpointslices"), "left")
			b.RefuseIf("delete endpointslices left", notFound, func(n int) bool { return n == 1 })
			b.run(t)
			begun := b.Clock.Now()
			b.EventuallyAsTimePasses(t, "the slice is gone", time.Second, func() bool {
				return !slices.ContainsFunc(b.stored(t), func(s *discoveryv1.EndpointSlice) bool { return s.Name == "left" })
			})
			if took := b.Clock.Since(begun); took > time.Minute {
				t.Errorf("it was deleted after %v", took)
			}
		})
	}
}

// Pins EPM-14.
func TestRunDropsEndpointsThatFailTooOften(t *testing.T) {
	b := newBench(t, defaults, testService(nil), oneAddress())
	b.Refuse("create endpointslices", errors.New("no"))
	b.run(t)
	b.EventuallyAsTimePasses(t, "the key is dropped after its last retry", maxRetryDelay, func() bool {
		return b.c.loop.Inspect().Failed == maxRetries+1 && b.c.loop.Retries(web) == 0
	})
}

// waitsForUnseen fails the test unless a reconcile waits for a slice that exists, and that the cache lacks.
func (b *bench) waitsForUnseen(t *testing.T) {
	t.Helper()
	b.Fake.PrependReactor("get", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, sliceOf("unseen", oneAddress()), nil
	})
	if err := b.Reconcile(); !errors.Is(err, slicewrites.ErrStaleCache) {
		t.Errorf("error is %v, want a stale cache", err)
	}
}

// Pins EPM-37 and EPM-64.
func TestSuccessorWaitsForUnseenWrites(t *testing.T) {
	b := newBench(t, defaults, testService(nil), oneAddress()).begin(t)
	b.c.written.Wrote(sliceOf("unseen", oneAddress()))
	unbegun := newBench(t, defaults)
	unbegun.Succession.Leave(b.Succession.HandOver())
	next := newBench(t, defaults, testService(nil), oneAddress())
	next.Succession.Leave(unbegun.Succession.HandOver())
	next.begin(t)
	next.waitsForUnseen(t)
	gone := newBench(t, defaults, testService(nil), oneAddress())
	gone.Succession.Leave(b.Succession.HandOver())
	gone.begin(t).MustReconcile(t)
	if len(gone.stored(t)) != 1 {
		t.Error("EPM-64: a slice that is gone still counts")
	}

	seeing := newBench(t, defaults, testService(nil), oneAddress(), sliceOf("unseen", oneAddress()))
	seeing.Succession.Leave(b.Succession.HandOver())
	seeing.begin(t).MustReconcile(t)
	if !seeing.c.written.Tracker.Has(sliceOf("unseen", oneAddress())) {
		t.Error("a slice that the cache shows by now is not tracked")
	}

	odd := newBench(t, defaults, testService(nil), oneAddress())
	odd.Succession.Leave("something else")
	odd.begin(t).MustReconcile(t)
	if len(odd.stored(t)) != 1 {
		t.Error("an unknown predecessor kept the Endpoints from being mirrored")
	}
}

// The cache of Endpoints shows that they were deleted, and not yet that they were created again. Pins EPM-66.
func TestSuccessorWaitsForUnseenWritesForEndpointsThatWereGone(t *testing.T) {
	b := newBench(t, defaults, testService(nil), oneAddress()).begin(t)
	b.MustReconcile(t)
	b.observed(t) // or else this one is unseen, too
	b.c.written.Wrote(sliceOf("unseen", oneAddress()))
	b.Uncache(t, oneAddress())
	unbegun := newBench(t, defaults)
	unbegun.Succession.Leave(b.Succession.HandOver())
	between := newBench(t, defaults)
	between.c.queue = between.Queued
	between.Succession.Leave(unbegun.Succession.HandOver())
	between.begin(t)
	between.Queued.Want(t, "backlog n/web") // they may be gone for good
	next := newBench(t, defaults, testService(nil), oneAddress())
	next.Succession.Leave(between.Succession.HandOver())
	next.begin(t)
	next.waitsForUnseen(t)
	between.MustReconcile(t)
	if left := between.c.mirrored.list(); len(left) > 0 {
		t.Errorf("%v are remembered after their slices are gone", left)
	}
}

func TestRunThatNeverSyncsEnds(t *testing.T) {
	b := newBench(t, defaults)
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	if err := b.c.Run(ctx); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if b.Succession.HandOver() != nil {
		t.Error("an instance that never began has something to hand over")
	}
}
