package endpointslicemirroring

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.Name != "endpointslice-mirroring-controller" || !slices.Equal(d.Aliases, []string{"endpointslicemirroring"}) ||
		d.ServiceAccount != "endpointslicemirroring-controller" || d.EventSource != "endpoint-slice-mirroring-controller" {
		t.Errorf("descriptor is %+v", d)
	}
	cfg := v1beta1.NewDefault()
	if got := d.Value(cfg); got != defaults {
		t.Errorf("default value is %+v, want %+v", got, defaults)
	}
	cfg.Controllers.EndpointSliceMirroring.ConcurrentSyncs = ptr.To[int32](7)
	cfg.Controllers.EndpointSliceMirroring.MaxEndpointsPerSubset = ptr.To[int32](9)
	cfg.Controllers.EndpointSliceMirroring.EndpointUpdatesBatchPeriod = &metav1.Duration{Duration: time.Second}
	if got, want := d.Value(cfg), (config{7, 9, time.Second}); got != want {
		t.Errorf("value is %+v, want %+v", got, want)
	}
	if _, err := d.New(controllertest.New(t).Env, d.Value(cfg)); err != nil {
		t.Fatal(err)
	}
}

// Pins EPM-18 and EPM-20c.
func TestEndpointsAreMirrored(t *testing.T) {
	b := newBench(t, defaults, testService(nil), testEndpoints(subset(80, []string{"10.0.0.1", "fd00::1"}, []string{"10.0.0.2"}))).begin(t)
	b.MustReconcile(t)
	want := []string{"IPv4 80: (10.0.0.2) 10.0.0.1", "IPv6 80: fd00::1"}
	if got := sliceTexts(b.stored(t)); !slices.Equal(got, want) {
		t.Errorf("slices are %q, want %q", got, want)
	}
	b.observed(t)
	b.MustReconcile(t)
	if got := b.WriteVerbs(); len(got) != 2 {
		t.Errorf("writes are %v, want two creates", got)
	}
}

// Slices with another managed-by label are those of somebody else, even if they name the Service. Pins EPM-3.
func TestSlicesAreOursByTheirLabel(t *testing.T) {
	managed := func(by string) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = by }
	}
	const us = "endpointslicemirroring-controller.k8s.io"
	foreign := sliceOf("foreign", oneAddress(), managed("endpointslice-controller.k8s.io"))
	endpoints := testEndpoints(subset(80, []string{"10.0.0.2"}, nil))
	b := newBench(t, defaults, testService(nil), endpoints, foreign, sliceOf("ours", oneAddress(), managed(us))).begin(t)
	b.Requests()
	b.MustReconcile(t)
	b.WantRequests(t, "update endpointslices ours")
	stored := controllertest.MustStored[*discoveryv1.EndpointSlice](t, b.Env, "n", "ours")
	if got := stored.Labels[discoveryv1.LabelManagedBy]; got != us {
		t.Errorf("managed by %q", got)
	}
}

// Pins EPM-41.
func TestRequestsOfEndpoints(t *testing.T) {
	first, second := subset(80, []string{"10.0.0.1", "fd00::1"}, nil), subset(90, []string{"10.0.0.2"}, nil)
	more := subset(80, []string{"10.0.0.1", "10.0.0.3", "fd00::1"}, nil)
	b := newBench(t, defaults, testService(nil), testEndpoints(first, second)).begin(t)
	for _, step := range []struct {
		subsets []corev1.EndpointSubset
		want    []string
	}{
		{[]corev1.EndpointSubset{first, second}, slices.Repeat([]string{"create endpointslices"}, 3)},
		{[]corev1.EndpointSubset{more, second}, []string{"update endpointslices"}},
		{[]corev1.EndpointSubset{more, second}, nil},
		{nil, slices.Repeat([]string{"delete endpointslices"}, 3)},
	} {
		b.Cache(t, testEndpoints(step.subsets...))
		b.Requests()
		b.MustReconcile(t)
		b.WantRequests(t, step.want...)
		b.observed(t)
	}
}

// That Endpoints belong to a Service with a selector is seen late, but costs no request. Pins EPM-42.
func TestEndpointsOfSelectorServicesCostNothing(t *testing.T) {
	selecting := testService(map[string]string{"a": "b"})
	b := newBench(t, defaults, selecting)
	b.c.endpointsFuncs().Update(reconcile.Fresh, oneAddress(), oneAddress())
	if n := b.c.loop.Inspect().Depth; n != 1 {
		t.Errorf("%d keys, want one", n)
	}
	b = newBench(t, defaults, selecting, oneAddress()).begin(t)
	b.Requests()
	b.MustReconcile(t)
	b.WantRequests(t)
}

func TestWhatIsNotMirrored(t *testing.T) {
	with := func(change func(*corev1.Endpoints)) []runtime.Object {
		return []runtime.Object{testService(nil), oneAddress(change)}
	}
	for name, tc := range map[string]struct {
		objects  []runtime.Object
		mirrored bool
	}{
		"EPM-15a: no Endpoints":   {[]runtime.Object{testService(nil)}, false},
		"EPM-15a: no Service":     {[]runtime.Object{oneAddress()}, false},
		"EPM-15a: selector":       {[]runtime.Object{testService(map[string]string{"a": "b"}), oneAddress()}, false},
		"EPM-15a: empty selector": {[]runtime.Object{testService(map[string]string{}), oneAddress()}, false},
		"EPM-8: skipped":          {with(func(e *corev1.Endpoints) { e.Labels[discoveryv1.LabelSkipMirror] = "true" }), false},
		"EPM-8: lock": {with(func(e *corev1.Endpoints) {
			e.Annotations = map[string]string{resourcelock.LeaderElectionRecordAnnotationKey: ""}
		}), false},
		"EPM-8: not skipped":                 {with(func(e *corev1.Endpoints) { e.Labels[discoveryv1.LabelSkipMirror] = "True" }), true},
		"EPM-20a, EPM-22: without addresses": {with(func(e *corev1.Endpoints) { e.Subsets = nil }), false},
	} {
		t.Run(name, func(t *testing.T) {
			foreign := sliceOf("foreign", oneAddress(), func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "x" })
			b := newBench(t, defaults, append(tc.objects, sliceOf("ours", oneAddress()), foreign)...).begin(t)
			b.MustReconcile(t)
			var got []string
			for _, s := range b.stored(t) {
				got = append(got, s.Name)
			}
			want := []string{"foreign"}
			if tc.mirrored {
				want = append(want, "ours")
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("slices are %v, want %v", got, want)
			}
			b.observed(t)
			b.MustReconcile(t)
		})
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

func TestSkippedAddressesAreReported(t *testing.T) {
	few := config{concurrentSyncs: 1, maxEndpoints: 1}
	for name, tc := range map[string]struct {
		ips  []string
		want []string
	}{
		"none":            {[]string{"10.0.0.1"}, nil},
		"EPM-23: invalid": {[]string{"!", "10.0.0.1"}, []string{"Warning InvalidIPAddress Skipped 1 invalid IP addresses when mirroring to EndpointSlices"}},
		"EPM-24: too many": {[]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"},
			[]string{"Warning TooManyAddressesToMirror A max of 1 addresses can be mirrored to EndpointSlices per Endpoints subset. 2 addresses were skipped"}},
		"EPM-19: both": {[]string{"!", "10.0.0.1", "10.0.0.2"}, []string{
			"Warning InvalidIPAddress Skipped 1 invalid IP addresses when mirroring to EndpointSlices",
			"Warning TooManyAddressesToMirror A max of 1 addresses can be mirrored to EndpointSlices per Endpoints subset. 2 addresses were skipped"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, few, testService(nil), testEndpoints(subset(80, tc.ips, nil))).begin(t)
			for range 2 {
				b.MustReconcile(t)
				b.observed(t)
				if got := b.RecordedEvents(); !slices.Equal(got, tc.want) {
					t.Errorf("events are %q, want %q", got, tc.want)
				}
			}
		})
	}
}

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

// A decoder leaves an empty list of ports nil. Pins EPM-20b.
func TestSlicesWithoutPortsStay(t *testing.T) {
	endpoints := testEndpoints(subset(0, []string{"10.0.0.1"}, nil))
	decoded := sliceOf("found", endpoints, func(s *discoveryv1.EndpointSlice) { s.Ports = nil })
	b := newBench(t, defaults, testService(nil), endpoints, decoded).begin(t)
	b.MustReconcile(t)
	if got := b.WriteVerbs(); len(got) != 0 {
		t.Errorf("writes are %v", got)
	}
}

// Pins EPM-20b and EPM-30.
func TestUnchangedSlicesAreTracked(t *testing.T) {
	b := newBench(t, defaults, testService(nil), oneAddress(), sliceOf("found", oneAddress())).begin(t)
	b.MustReconcile(t)
	if !b.c.written.Tracker.Has(sliceOf("found", oneAddress())) || len(b.WriteVerbs()) != 0 {
		t.Errorf("the slice that was found is not tracked, or written: %v", b.WriteVerbs())
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

// Pins EPM-20b and EPM-30.
func TestSliceOfRecreatedEndpointsIsTakenOver(t *testing.T) {
	old := sliceOf("old", oneAddress(func(e *corev1.Endpoints) { e.UID = "before" }))
	b := newBench(t, defaults, testService(nil), oneAddress(), old).begin(t)
	b.MustReconcile(t)
	got := b.stored(t)
	if len(got) != 1 || got[0].Name != "old" || got[0].OwnerReferences[0].UID != "endpoints" {
		t.Errorf("slices are %+v", got)
	}
}

// Pins EPM-21.
func TestEndpointsBeingDeletedGetNoNewSlices(t *testing.T) {
	both := testEndpoints(subset(80, []string{"10.0.0.1", "10.0.0.2", "fd00::1"}, nil))
	both.DeletionTimestamp, both.Finalizers = ptr.To(metav1.Now()), []string{"x/y"}
	b := newBench(t, defaults, testService(nil), both, sliceOf("a", oneAddress())).begin(t)
	b.MustReconcile(t)
	if got := b.WriteVerbs(); !slices.Equal(got, []string{"update"}) {
		t.Errorf("writes are %v, want the update alone", got)
	}
}

// unindexed is an informer that refuses indexes, as one does that has stopped.
type unindexed struct{ cache.SharedIndexInformer }

func (unindexed) AddIndexers(cache.Indexers) error { return errors.New("it has stopped") }

// Pins EPM-25.
func TestSlicesThatCannotBeListed(t *testing.T) {
	b := newBench(t, defaults, testService(nil), oneAddress()).begin(t)
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &discoveryv1.EndpointSlice{}, 0, cache.Indexers{})
	b.c.slices = index.NewEndpointSlices(unindexed{informer})
	if err := b.Reconcile(); err == nil || reconcile.IsExpected(err) {
		t.Errorf("error is %v", err)
	}
	b.WantEvents(t)
	if got := b.WriteVerbs(); len(got) != 0 {
		t.Errorf("writes are %v", got)
	}
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

// No event reports a write that failed. Pins EPM-25.
func TestFailures(t *testing.T) {
	ending := apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "web", errors.New("going"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	notFound := apierrors.NewNotFound(discoveryv1.Resource("endpointslices"), "a")
	ofAProxy := apierrors.NewGenericServerResponse(
		http.StatusNotFound, "delete", discoveryv1.Resource("endpointslices"), "a", "404 page not found", 0, true)
	slice := sliceOf("a", oneAddress())
	for name, tc := range map[string]struct {
		verb    string
		err     error
		objects []runtime.Object
		want    string
	}{
		"create":                       {"create", errors.New("boom"), []runtime.Object{testService(nil), oneAddress()}, "creating an EndpointSlice of Endpoints n/web: boom"},
		"EPM-21: create in ending one": {"create", ending, []runtime.Object{testService(nil), oneAddress()}, ""},
		"update":                       {"update", errors.New("boom"), []runtime.Object{testService(nil), testEndpoints(subset(80, []string{"10.0.0.2"}, nil)), slice}, "updating EndpointSlice n/a: boom"},
		"delete":                       {"delete", errors.New("boom"), []runtime.Object{testService(nil), testEndpoints(), slice}, "deleting EndpointSlice n/a: boom"},
		"EPM-47: deleted by others":    {"delete", notFound, []runtime.Object{testService(nil), testEndpoints(), slice}, ""},
		"EPM-57: deletion answered by a proxy": {"delete", ofAProxy, []runtime.Object{testService(nil), testEndpoints(), slice},
			"deleting EndpointSlice n/a: " + ofAProxy.Error()},
		"EPM-57: cleaning up answered by a proxy": {"delete", ofAProxy, []runtime.Object{slice},
			"error(s) deleting 1/1 EndpointSlices for n/web Endpoints, including: " + ofAProxy.Error()},
		"EPM-15: clean up": {"delete", errors.New("boom"), []runtime.Object{slice, sliceOf("b", oneAddress())},
			"error(s) deleting 2/2 EndpointSlices for n/web Endpoints, including: boom"},
		"EPM-47: cleaned up by others": {"delete", notFound, []runtime.Object{slice}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, tc.objects...).begin(t)
			b.Refuse(tc.verb+" endpointslices", tc.err)
			err := b.Reconcile()
			if got := fmt.Sprint(err); tc.want == "" && err != nil || tc.want != "" && (got != tc.want || !errors.Is(err, tc.err)) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
			b.WantEvents(t)
		})
	}
}

// Pins EPM-26.
func TestMetrics(t *testing.T) {
	few := config{concurrentSyncs: 1, maxEndpoints: 2}
	b := newBench(t, few, testService(nil), testEndpoints(subset(80, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, nil))).begin(t)
	b.MustReconcile(t)
	b.observed(t)
	b.Cache(t, oneAddress())
	b.MustReconcile(t)
	const prefix = "endpoint_slice_mirroring_controller_"
	for name, want := range map[string]float64{
		"changes create": 1, "changes update": 1, "desired_endpoint_slices": 1, "endpoints_desired": 1, "num_endpoint_slices": 1,
	} {
		if got := value(t, b, prefix+name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]float64{"endpoints_added_per_sync": 2, "endpoints_updated_per_sync": 0, "endpoints_removed_per_sync": 1, "addresses_skipped_per_sync": 1} {
		if sum, count := histogram(t, b, prefix+name); sum != want || count != 2 {
			t.Errorf("%s: sum %v of %v, want %v of 2", name, sum, count, want)
		}
	}
	if _, count := histogram(t, b, prefix+"endpoints_sync_duration"); count != 2 {
		t.Errorf("%v durations, want 2", count)
	}
	b.c.metrics.totals.forget(web)
	if b.c.metrics.totals.sum != (total{}) || len(b.c.metrics.totals.of) != 0 {
		t.Errorf("forgotten Endpoints still count: %+v", b.c.metrics.totals.sum)
	}
}

// Pins EPM-39.
func TestGaugesStartFromZero(t *testing.T) {
	b := newBench(t, defaults, testService(nil), oneAddress()).begin(t)
	b.MustReconcile(t)
	next := newBench(t, defaults, testService(nil), oneAddress(), b.stored(t)[0])
	next.Succession.Leave(b.Succession.HandOver())
	next.begin(t)
	gauges := func(want string) {
		t.Helper()
		for _, name := range []string{"desired_endpoint_slices", "endpoints_desired", "num_endpoint_slices"} {
			if got := next.Series(t, "endpoint_slice_mirroring_controller_"+name); !slices.Equal(got, []string{want}) {
				t.Errorf("%s is %q, want %s", name, got, want)
			}
		}
	}
	gauges("0")
	next.MustReconcile(t)
	gauges("1")
}

// value is that of a counter or gauge, whose name may be followed by a label value.
func value(t *testing.T, b *bench, name string) float64 {
	t.Helper()
	families, err := b.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			full := f.GetName()
			for _, l := range m.GetLabel() {
				full += " " + l.GetValue()
			}
			if full == name {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func histogram(t *testing.T, b *bench, name string) (sum float64, count uint64) {
	t.Helper()
	families, err := b.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			h := f.GetMetric()[0].GetHistogram()
			return h.GetSampleSum(), h.GetSampleCount()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0, 0
}
