package endpointslice

import (
	"context"
	"slices"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

type sliceChange = func(*discoveryv1.EndpointSlice)

func generation(g int64) sliceChange {
	return func(s *discoveryv1.EndpointSlice) { s.Generation = g }
}

func service(name string) sliceChange {
	return func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = name }
}

func manager(name string) sliceChange {
	return func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = name }
}

func terminating(s *discoveryv1.EndpointSlice) { s.DeletionTimestamp = ptr.To(metav1.Now()) }

func testWritten() (*written, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return newWritten(clock), clock
}

func TestFoundSlicesAreTracked(t *testing.T) {
	for name, tc := range map[string]struct {
		before, found *discoveryv1.EndpointSlice
		tracked       bool
		differs       bool // in generation 2
	}{
		"ours":               {nil, testSlice("s", generation(2)), true, false},
		"of somebody else":   {nil, testSlice("s", generation(2), manager("else")), false, true},
		"being deleted":      {nil, testSlice("s", generation(2), terminating), false, true},
		"written later":      {testSlice("s", generation(3)), testSlice("s", generation(2)), true, false},
		"changed by someone": {testSlice("s", generation(1)), testSlice("s", generation(2)), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := testWritten()
			if tc.before != nil {
				w.tracker.Update(tc.before)
			}
			w.found(tc.found)
			if got := w.tracker.Has(testSlice("s")); got != tc.tracked {
				t.Errorf("tracked = %v, want %v", got, tc.tracked)
			}
			if got := w.differs(testSlice("s", generation(2))); got != tc.differs {
				t.Errorf("generation 2 differs = %v, want %v", got, tc.differs)
			}
		})
	}
}

func TestAddedSliceThatDiffers(t *testing.T) {
	w, _ := testWritten()
	w.tracker.Update(testSlice("known", generation(2)))
	for name, tc := range map[string]struct {
		added *discoveryv1.EndpointSlice
		want  bool
	}{
		"as written":       {testSlice("known", generation(2)), false},
		"older":            {testSlice("known", generation(1)), false},
		"newer":            {testSlice("known", generation(3)), true},
		"unknown":          {testSlice("unknown"), true},
		"of somebody else": {testSlice("unknown", manager("else")), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := w.differs(tc.added); got != tc.want {
				t.Errorf("differs = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestUpdatedSlice(t *testing.T) {
	for name, tc := range map[string]struct {
		old, new []sliceChange
		want     []string // Services to reconcile
		tracked  bool     // afterwards, for the old Service
	}{
		"our write observed":    {nil, []sliceChange{generation(2)}, nil, true},
		"changed by somebody":   {[]sliceChange{generation(2)}, []sliceChange{generation(3)}, []string{"web"}, true},
		"moved":                 {nil, []sliceChange{service("other")}, []string{"other", "web"}, false},
		"moved by a stranger":   {[]sliceChange{manager("else")}, []sliceChange{manager("else"), service("other")}, []string{"other", "web"}, true},
		"taken from us":         {nil, []sliceChange{manager("else")}, []string{"web"}, false},
		"given to us":           {[]sliceChange{manager("else")}, nil, []string{"web"}, true},
		"other labels changed":  {nil, []sliceChange{func(s *discoveryv1.EndpointSlice) { s.Labels["x"] = "y" }}, nil, true},
		"changed among others":  {[]sliceChange{manager("else")}, []sliceChange{manager("else"), generation(9)}, nil, true},
		"begins to be deleted":  {nil, []sliceChange{terminating, generation(3)}, []string{"web"}, true},
		"resynced":              {[]sliceChange{generation(2)}, []sliceChange{generation(2)}, nil, true},
		"moved and taken":       {nil, []sliceChange{service("other"), manager("else")}, []string{"other", "web"}, false},
		"older state than ours": {nil, []sliceChange{generation(1)}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := testWritten()
			w.tracker.Update(testSlice("s", generation(2)))
			var got []string
			for _, s := range w.changed(testSlice("s", tc.old...), testSlice("s", tc.new...)) {
				got = append(got, s.Labels[discoveryv1.LabelServiceName])
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("Services are %v, want %v", got, tc.want)
			}
			if tracked := w.tracker.Has(testSlice("s")); tracked != tc.tracked {
				t.Errorf("tracked = %v, want %v", tracked, tc.tracked)
			}
		})
	}
}

func TestDeletedSlice(t *testing.T) {
	for name, tc := range map[string]struct {
		track func(*written)
		slice *discoveryv1.EndpointSlice
		want  bool
	}{
		"by somebody else": {func(w *written) { w.found(testSlice("s")) }, testSlice("s"), true},
		"by us":            {func(w *written) { w.tracker.ExpectDeletion(testSlice("s")) }, testSlice("s"), false},
		"untracked":        {func(*written) {}, testSlice("s"), false},
		"with its Service": {func(w *written) { w.found(testSlice("s")); w.forgetService("n", "web") }, testSlice("s"), false},
		"of somebody else": {func(w *written) { w.found(testSlice("s")) }, testSlice("s", manager("else")), false},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := testWritten()
			tc.track(w)
			if got := w.deletedByOthers(tc.slice); got != tc.want {
				t.Errorf("deleted by others = %v, want %v", got, tc.want)
			}
			if ours(tc.slice) && w.tracker.Has(tc.slice) {
				t.Error("a deleted slice is still tracked")
			}
		})
	}
}

func TestCurrentSlices(t *testing.T) {
	w, _ := testWritten()
	w.found(testSlice("b"))
	got := w.current([]*discoveryv1.EndpointSlice{
		testSlice("a"), testSlice("b", terminating), testSlice("c", manager("else")),
	})
	if len(got) != 1 || got[0].Name != "a" {
		t.Errorf("current slices are %v", got)
	}
	if w.tracker.Has(testSlice("b")) {
		t.Error("the slice being deleted is still expected in the list")
	}
}

func TestStaleness(t *testing.T) {
	for name, tc := range map[string]struct {
		tracked func(*written)
		cached  []*discoveryv1.EndpointSlice
		want    bool
	}{
		"nothing tracked":      {func(*written) {}, []*discoveryv1.EndpointSlice{testSlice("s")}, false},
		"as written":           {func(w *written) { w.found(testSlice("s")) }, []*discoveryv1.EndpointSlice{testSlice("s")}, false},
		"newer":                {func(w *written) { w.found(testSlice("s")) }, []*discoveryv1.EndpointSlice{testSlice("s", generation(2))}, false},
		"older":                {func(w *written) { w.found(testSlice("s", generation(2))) }, []*discoveryv1.EndpointSlice{testSlice("s")}, true},
		"missing":              {func(w *written) { w.found(testSlice("s")) }, nil, true},
		"deleted, still there": {func(w *written) { w.tracker.ExpectDeletion(testSlice("s")) }, []*discoveryv1.EndpointSlice{testSlice("s")}, true},
		"deleted and gone":     {func(w *written) { w.tracker.ExpectDeletion(testSlice("s")) }, nil, false},
		"moved away": {func(w *written) {
			w.found(testSlice("s"))
			w.changed(testSlice("s"), testSlice("s", service("other")))
		}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := testWritten()
			tc.tracked(w)
			if got := w.stale(context.Background(), testService(), tc.cached); got != tc.want {
				t.Errorf("stale = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestStalenessEndsAfterTheTimeout(t *testing.T) {
	w, clock := testWritten()
	ctx, cached := context.Background(), []*discoveryv1.EndpointSlice{testSlice("s")}
	w.found(testSlice("lost"))
	if !w.stale(ctx, testService(), cached) {
		t.Fatal("not stale although a slice is missing")
	}
	clock.SetTime(clock.Now().Add(staleTimeout - time.Second))
	if !w.stale(ctx, testService(), cached) {
		t.Fatal("not stale any more before the timeout")
	}
	clock.SetTime(clock.Now().Add(time.Second))
	if w.stale(ctx, testService(), cached) {
		t.Fatal("still stale after the timeout")
	}
	if w.tracker.Has(testSlice("lost")) || !w.tracker.Has(testSlice("s")) {
		t.Error("the cache was not taken for the truth")
	}
	w.found(testSlice("lost"))
	if !w.stale(ctx, testService(), cached) {
		t.Error("the next staleness does not get its own time")
	}
}

func TestUnseenWrites(t *testing.T) {
	web := types.NamespacedName{Namespace: "n", Name: "web"}
	for name, tc := range map[string]struct {
		track    func(*written)
		atLeave  []*discoveryv1.EndpointSlice
		unseen   int
		atReturn []*discoveryv1.EndpointSlice
		stale    bool // for the successor
	}{
		"seen":               {func(w *written) { w.found(testSlice("s")) }, []*discoveryv1.EndpointSlice{testSlice("s")}, 0, nil, false},
		"created, unseen":    {func(w *written) { w.found(testSlice("s")) }, nil, 1, nil, true},
		"created, then seen": {func(w *written) { w.found(testSlice("s")) }, nil, 1, []*discoveryv1.EndpointSlice{testSlice("s")}, false},
		"updated, unseen": {func(w *written) { w.found(testSlice("s", generation(2))) }, []*discoveryv1.EndpointSlice{testSlice("s")}, 1,
			[]*discoveryv1.EndpointSlice{testSlice("s")}, true},
		"updated, then deleted by others": {func(w *written) { w.found(testSlice("s", generation(2))) },
			[]*discoveryv1.EndpointSlice{testSlice("s")}, 1, nil, false},
		"deleted, unseen": {func(w *written) { w.tracker.ExpectDeletion(testSlice("s")) }, []*discoveryv1.EndpointSlice{testSlice("s")}, 1,
			[]*discoveryv1.EndpointSlice{testSlice("s")}, true},
		"deleted, then seen": {func(w *written) { w.tracker.ExpectDeletion(testSlice("s")) }, []*discoveryv1.EndpointSlice{testSlice("s")}, 1, nil, false},
		"deleted, finalizing": {func(w *written) { w.tracker.ExpectDeletion(testSlice("s")) },
			[]*discoveryv1.EndpointSlice{testSlice("s", terminating)}, 0, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			old, _ := testWritten()
			tc.track(old)
			unseen := old.unseen(web, tc.atLeave)
			if len(unseen) != tc.unseen {
				t.Fatalf("unseen writes are %+v, want %d", unseen, tc.unseen)
			}
			successor, _ := testWritten()
			for _, s := range tc.atReturn {
				successor.found(s)
			}
			for _, w := range unseen {
				successor.expect(w, tc.atReturn)
			}
			if got := successor.stale(context.Background(), testService(), tc.atReturn); got != tc.stale {
				t.Errorf("stale = %v, want %v", got, tc.stale)
			}
		})
	}
}
