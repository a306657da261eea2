package slicewrites

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/test/must"
)

const ourselves = "our-controller"

var web = types.NamespacedName{Namespace: "n", Name: "web"}

func testSlice(name string, change ...sliceChange) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: name, UID: types.UID(name), Generation: 1,
		Labels: map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: ourselves},
	}}
	for _, c := range change {
		c(slice)
	}
	return slice
}

type sliceChange = func(*discoveryv1.EndpointSlice)

func generation(g int64) sliceChange {
	return func(s *discoveryv1.EndpointSlice) { s.Generation = g }
}

func version(v string) sliceChange {
	return func(s *discoveryv1.EndpointSlice) { s.ResourceVersion = v }
}

func service(name string) sliceChange {
	return func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = name }
}

func manager(name string) sliceChange {
	return func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = name }
}

func recreated(s *discoveryv1.EndpointSlice) { s.UID = "another" }

func terminating(s *discoveryv1.EndpointSlice) { s.DeletionTimestamp = ptr.To(metav1.Now()) }

func testLedger() (*Ledger, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	return New(ourselves, clock, store, fake.NewClientset().DiscoveryV1()), clock
}

// Pins EPS-62.
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
			w, _ := testLedger()
			if tc.before != nil {
				w.Tracker.Update(tc.before)
			}
			w.Found(tc.found)
			if got := w.Tracker.Has(testSlice("s")); got != tc.tracked {
				t.Errorf("tracked = %v, want %v", got, tc.tracked)
			}
			if got := w.Differs(testSlice("s", generation(2))); got != tc.differs {
				t.Errorf("generation 2 differs = %v, want %v", got, tc.differs)
			}
		})
	}
}

// Pins EPS-11a and EPM-11.
func TestAddedSliceThatDiffers(t *testing.T) {
	w, _ := testLedger()
	w.Tracker.Update(testSlice("known", generation(2)))
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
			if got := w.Differs(tc.added); got != tc.want {
				t.Errorf("differs = %v, want %v", got, tc.want)
			}
		})
	}
}

// Pins EPS-11b and EPM-11.
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
		"EPS-74, EPM-55: recreated": {
			nil, []sliceChange{recreated}, []string{"web"}, false,
		},
		"EPS-74, EPM-55: recreated by somebody else": {
			nil, []sliceChange{recreated, manager("else")}, []string{"web"}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := testLedger()
			w.Tracker.Update(testSlice("s", generation(2)))
			var got []string
			for _, s := range w.Changed(testSlice("s", tc.old...), testSlice("s", tc.new...)) {
				got = append(got, s.Labels[discoveryv1.LabelServiceName])
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("Services are %v, want %v", got, tc.want)
			}
			if tracked := w.Tracker.Has(testSlice("s")); tracked != tc.tracked {
				t.Errorf("tracked = %v, want %v", tracked, tc.tracked)
			}
		})
	}
}

// Pins EPS-11c and EPM-11.
func TestDeletedSlice(t *testing.T) {
	for name, tc := range map[string]struct {
		track func(*Ledger)
		slice *discoveryv1.EndpointSlice
		want  bool
	}{
		"by somebody else": {func(w *Ledger) { w.Found(testSlice("s")) }, testSlice("s"), true},
		"by us":            {func(w *Ledger) { w.Tracker.ExpectDeletion(testSlice("s")) }, testSlice("s"), false},
		"untracked":        {func(*Ledger) {}, testSlice("s"), false},
		"with its Service": {func(w *Ledger) { w.Found(testSlice("s")); w.Forget(web) }, testSlice("s"), false},
		"of somebody else": {func(w *Ledger) { w.Found(testSlice("s")) }, testSlice("s", manager("else")), false},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := testLedger()
			tc.track(w)
			if got := w.DeletedByOthers(tc.slice); got != tc.want {
				t.Errorf("deleted by others = %v, want %v", got, tc.want)
			}
			if w.ours(tc.slice) && w.Tracker.Has(tc.slice) {
				t.Error("a deleted slice is still tracked")
			}
		})
	}
}

// TestTheAnswerToAWriteComesLate has the slice that is being written end before the answer is tracked.
func TestTheAnswerToAWriteComesLate(t *testing.T) {
	answered := testSlice("s", generation(2))
	for name, tc := range map[string]struct {
		tracked bool // before
		ends    func(*Ledger)
		undone  bool
	}{
		"EPS-69, EPM-50: a tracked slice is deleted":   {true, func(l *Ledger) { l.DeletedByOthers(answered) }, true},
		"EPS-69, EPM-50: a new slice is deleted":       {false, func(l *Ledger) { l.DeletedByOthers(answered) }, true},
		"EPS-69, EPM-50: it is of another Service now": {true, func(l *Ledger) { l.Changed(answered, testSlice("s", generation(2), service("other"))) }, true},
		"EPS-69, EPM-50: somebody else manages it now": {true, func(l *Ledger) { l.Changed(answered, testSlice("s", generation(2), manager("else"))) }, true},
		"EPS-74, EPM-55: it was recreated":             {true, func(l *Ledger) { l.Changed(answered, testSlice("s", recreated)) }, true},
		"another slice is deleted":                     {true, func(l *Ledger) { l.DeletedByOthers(testSlice("other")) }, false},
		"a slice of somebody else is deleted":          {true, func(l *Ledger) { l.DeletedByOthers(testSlice("s", manager("else"))) }, false},
		"nothing ends":                                 {true, func(*Ledger) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := testLedger()
			if tc.tracked {
				l.Tracker.Update(testSlice("s"))
			}
			failure := errors.New("another write failed")
			undone, err := l.Writing(web, func() error {
				tc.ends(l)
				l.Tracker.Update(answered)
				return failure
			})
			if !errors.Is(err, failure) || undone != tc.undone {
				t.Errorf("undone %v, error %v", undone, err)
			}
			cached := []*discoveryv1.EndpointSlice{answered}
			if tc.undone {
				cached = nil
			}
			if l.Stale(t.Context(), web, cached) {
				t.Error("waits for a write that no cache will show")
			}
			if len(l.ended) > 0 {
				t.Errorf("remembers %v", l.ended)
			}
		})
	}
}

func TestCurrentSlices(t *testing.T) {
	w, _ := testLedger()
	w.Found(testSlice("b"))
	// The library tracks a write when it has its answer, which may be after somebody
	// else took the slice over and the handler noted that.
	w.Tracker.Update(testSlice("c"))
	got := w.Current([]*discoveryv1.EndpointSlice{
		testSlice("a"), testSlice("b", terminating), testSlice("c", manager("else")),
	})
	if len(got) != 1 || got[0].Name != "a" {
		t.Errorf("current slices are %v", got)
	}
	if w.Tracker.Has(testSlice("b")) {
		t.Error("the slice being deleted is still expected in the list")
	}
	if w.Tracker.Has(testSlice("c")) {
		t.Error("the slice of somebody else is still expected in the list")
	}
}

// Pins EPS-23.
func TestStaleness(t *testing.T) {
	for name, tc := range map[string]struct {
		tracked func(*Ledger)
		cached  []*discoveryv1.EndpointSlice
		want    bool
	}{
		"nothing tracked":      {func(*Ledger) {}, []*discoveryv1.EndpointSlice{testSlice("s")}, false},
		"as written":           {func(w *Ledger) { w.Found(testSlice("s")) }, []*discoveryv1.EndpointSlice{testSlice("s")}, false},
		"newer":                {func(w *Ledger) { w.Found(testSlice("s")) }, []*discoveryv1.EndpointSlice{testSlice("s", generation(2))}, false},
		"older":                {func(w *Ledger) { w.Found(testSlice("s", generation(2))) }, []*discoveryv1.EndpointSlice{testSlice("s")}, true},
		"missing":              {func(w *Ledger) { w.Found(testSlice("s")) }, nil, true},
		"deleted, still there": {func(w *Ledger) { w.Tracker.ExpectDeletion(testSlice("s")) }, []*discoveryv1.EndpointSlice{testSlice("s")}, true},
		"deleted and gone":     {func(w *Ledger) { w.Tracker.ExpectDeletion(testSlice("s")) }, nil, false},
		"moved away": {func(w *Ledger) {
			w.Found(testSlice("s"))
			w.Changed(testSlice("s"), testSlice("s", service("other")))
		}, nil, false},
		"EPS-74, EPM-55: recreated": {func(w *Ledger) {
			w.Found(testSlice("s"))
			w.Changed(testSlice("s"), testSlice("s", recreated))
		}, []*discoveryv1.EndpointSlice{testSlice("s", recreated)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := testLedger()
			tc.tracked(w)
			if got := w.Stale(context.Background(), web, tc.cached); got != tc.want {
				t.Errorf("stale = %v, want %v", got, tc.want)
			}
		})
	}
}

// An update of annotations alone leaves the generation as it is. Pins EPM-53.
func TestStalenessAfterAnUpdateOfAnnotations(t *testing.T) {
	before, answer := testSlice("s", version("1")), testSlice("s", version("2"))
	for name, tc := range map[string]struct {
		answer, cached *discoveryv1.EndpointSlice
		after          func(*Ledger, *clocktesting.FakePassiveClock)
		want           bool
	}{
		"as before":           {answer: answer, cached: before, want: true},
		"as written":          {answer: answer, cached: answer},
		"changed since":       {answer: answer, cached: testSlice("s", version("3"))},
		"nothing was changed": {answer: before, cached: before},
		"changed back in place": {answer: answer, cached: before, after: func(l *Ledger, _ *clocktesting.FakePassiveClock) {
			l.Updated(before, []*discoveryv1.EndpointSlice{before})
		}},
		"deleted": {answer: answer, cached: before, after: func(l *Ledger, _ *clocktesting.FakePassiveClock) { l.DeletedByOthers(before) }},
		"for long": {answer: answer, cached: before, after: func(l *Ledger, clock *clocktesting.FakePassiveClock) {
			l.Stale(context.Background(), web, []*discoveryv1.EndpointSlice{before})
			clock.SetTime(clock.Now().Add(StaleTimeout))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l, clock := testLedger()
			l.Updated(tc.answer, []*discoveryv1.EndpointSlice{before})
			if tc.after != nil {
				tc.after(l, clock)
			}
			if got := l.Stale(t.Context(), web, []*discoveryv1.EndpointSlice{tc.cached}); got != tc.want {
				t.Errorf("stale = %v, want %v", got, tc.want)
			}
		})
	}
}

// An update of annotations that may have been executed leaves the generation as it is. Pins EPM-58.
func TestUpdatesWithoutAnAnswer(t *testing.T) {
	before, after := testSlice("s", version("1")), testSlice("s", version("2"))
	shown := func(l *Ledger, slice *discoveryv1.EndpointSlice) bool { return len(l.Changed(before, slice)) > 0 }
	for name, tc := range map[string]struct {
		then  func(*Ledger)
		shows *discoveryv1.EndpointSlice
		want  bool
	}{
		"it was executed":             {shows: after, want: true},
		"the cache shows what it did": {shows: before},
		"another slice":               {shows: testSlice("other", version("2")), want: true}, // is not tracked
		"of somebody else by now":     {shows: testSlice("s", version("2"), manager("else")), want: true},
		"it was repeated": {then: func(l *Ledger) {
			l.Updated(testSlice("s", version("3")), []*discoveryv1.EndpointSlice{after})
		}, shows: testSlice("s", version("3"))},
		"it has been seen": {then: func(l *Ledger) {
			l.Current([]*discoveryv1.EndpointSlice{after})
		}, shows: testSlice("s", version("3"))},
		"EPM-61: it was answered, and waited for in vain": {then: func(l *Ledger) {
			l.Updated(after, []*discoveryv1.EndpointSlice{before})
			for range 2 {
				l.Stale(t.Context(), web, []*discoveryv1.EndpointSlice{before})
				l.clock.(*clocktesting.FakePassiveClock).SetTime(l.clock.Now().Add(StaleTimeout))
			}
		}, shows: after, want: true},
		"it is waited for": {then: func(l *Ledger) {
			l.Current([]*discoveryv1.EndpointSlice{before})
		}, shows: after, want: true},
		"it was deleted, and another one has the name": {then: func(l *Ledger) {
			l.DeletedByOthers(before)
			l.Found(before)
		}, shows: after},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := testLedger()
			l.Found(before)
			l.Unanswered("s", []*discoveryv1.EndpointSlice{testSlice("other"), before})
			if tc.then != nil {
				tc.then(l)
			}
			if got := shown(l, tc.shows); got != tc.want {
				t.Errorf("its Service is reconciled: %v, want %v", got, tc.want)
			}
		})
	}
}

// Pins EPM-58.
func TestUpdatesWithoutAnAnswerAreHandedOver(t *testing.T) {
	before, after := testSlice("s", version("1")), testSlice("s", version("2"))
	for name, atReturn := range map[string]*discoveryv1.EndpointSlice{"unseen": before, "seen": after, "gone": nil} {
		t.Run(name, func(t *testing.T) {
			l, _ := testLedger()
			l.Found(before)
			l.Unanswered("s", []*discoveryv1.EndpointSlice{before})
			if unseen := l.unseenOf(web, []*discoveryv1.EndpointSlice{after}); len(unseen) != 0 {
				t.Errorf("what is seen is handed over: %+v", unseen)
			}
			unseen := l.unseenOf(web, []*discoveryv1.EndpointSlice{before})
			successor, _ := testLedger()
			var cached []*discoveryv1.EndpointSlice
			if atReturn != nil {
				cached = append(cached, atReturn)
				successor.Found(atReturn)
			}
			for _, w := range unseen {
				successor.expect(w, cached)
			}
			if successor.Stale(t.Context(), web, cached) {
				t.Error("it is waited for")
			}
			if got, want := successor.Differs(after), atReturn != after; got != want {
				t.Errorf("the successor takes note of it: %v, want %v", got, want)
			}
			if atReturn == nil && len(successor.unanswered) > 0 {
				t.Error("a slice that is gone is remembered")
			}
		})
	}
}

// What the cache shows just before it is known that somebody waits for that is found nevertheless. Pins EPM-49.
func TestLookingAtACacheThatCatchesUp(t *testing.T) {
	for name, tc := range map[string]struct {
		written bool // by what comes after the first list
		lists   int
		stale   bool
	}{
		"it catches up":        {written: true, lists: 2},
		"it does not catch up": {lists: 2, stale: true},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := testLedger()
			l.Found(testSlice("s", generation(2)))
			cached, lists := testSlice("s"), 0
			slices, stale, err := l.ListCurrent(t.Context(), web, func() ([]*discoveryv1.EndpointSlice, error) {
				lists++
				shown := cached
				if tc.written && lists == 1 {
					cached = testSlice("s", generation(2))
					if _, awaited := l.Awaited(cached); awaited {
						t.Error("it is awaited before anybody looked")
					}
				}
				return []*discoveryv1.EndpointSlice{shown}, nil
			})
			if err != nil || stale != tc.stale || lists != tc.lists || slices[0] != cached {
				t.Errorf("stale %v after %d lists, %v", stale, lists, err)
			}
			if _, awaited := l.Awaited(cached); awaited != tc.stale {
				t.Errorf("awaited = %v", awaited)
			}
		})
	}
	l, _ := testLedger()
	boom := errors.New("boom")
	if _, _, err := l.ListCurrent(t.Context(), web, func() ([]*discoveryv1.EndpointSlice, error) { return nil, boom }); !errors.Is(err, boom) {
		t.Errorf("error is %v", err)
	}
}

// Pins EPS-66.
func TestStalenessEndsAfterTheTimeout(t *testing.T) {
	w, clock := testLedger()
	ctx, cached := context.Background(), []*discoveryv1.EndpointSlice{testSlice("s")}
	w.Found(testSlice("lost"))
	if !w.Stale(ctx, web, cached) {
		t.Fatal("not stale although a slice is missing")
	}
	clock.SetTime(clock.Now().Add(StaleTimeout - time.Second))
	if !w.Stale(ctx, web, cached) {
		t.Fatal("not stale any more before the timeout")
	}
	clock.SetTime(clock.Now().Add(time.Second))
	if w.Stale(ctx, web, cached) {
		t.Fatal("still stale after the timeout")
	}
	if w.Tracker.Has(testSlice("lost")) || !w.Tracker.Has(testSlice("s")) {
		t.Error("the cache was not taken for the truth")
	}
	w.Found(testSlice("lost"))
	if !w.Stale(ctx, web, cached) {
		t.Error("the next staleness does not get its own time")
	}
}

// The successor sees notifications before it takes over. Pins EPS-78 and EPM-59.
func TestUnseenWritesToSlicesThatEndBeforeTheTakeover(t *testing.T) {
	for name, ends := range map[string]func(*Ledger){
		"deleted":                func(l *Ledger) { l.DeletedByOthers(testSlice("s")) },
		"somebody else's by now": func(l *Ledger) { l.Changed(testSlice("s"), testSlice("s", manager("else"))) },
		"of another Service":     func(l *Ledger) { l.Changed(testSlice("s"), testSlice("s", service("other"))) },
	} {
		t.Run(name, func(t *testing.T) {
			old, _ := testLedger()
			old.Found(testSlice("s"))
			unseen := Unseen{left: old.clock.Now(), writes: old.unseenOf(web, nil)}
			successor, _ := testLedger()
			ends(successor)
			informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, testSlice("s"), 0, cache.Indexers{})
			must.Succeed(t, successor.Expect(unseen, index.NewEndpointSlices(informer)))
			if successor.Stale(t.Context(), web, nil) {
				t.Error("it is waited for, in vain")
			}
			if successor.DeletedByOthers(testSlice("another")); len(successor.gone) > 0 {
				t.Errorf("remembers %v", successor.gone)
			}
		})
	}
}

// An instance can wait for long until it takes over.
func TestNotAllSlicesThatEndBeforeTheTakeoverAreRemembered(t *testing.T) {
	successor, _ := testLedger()
	for n := range maxGone + 1 {
		successor.DeletedByOthers(testSlice(fmt.Sprint(n)))
	}
	if len(successor.gone) != maxGone {
		t.Errorf("remembers %d, want %d", len(successor.gone), maxGone)
	}
}

func TestUnseenWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		track    func(*Ledger)
		atLeave  []*discoveryv1.EndpointSlice
		unseen   int
		atReturn []*discoveryv1.EndpointSlice
		stale    bool // for the successor
	}{
		"seen":               {func(w *Ledger) { w.Found(testSlice("s")) }, []*discoveryv1.EndpointSlice{testSlice("s")}, 0, nil, false},
		"created, unseen":    {func(w *Ledger) { w.Found(testSlice("s")) }, nil, 1, nil, true},
		"created, then seen": {func(w *Ledger) { w.Found(testSlice("s")) }, nil, 1, []*discoveryv1.EndpointSlice{testSlice("s")}, false},
		"updated, unseen": {func(w *Ledger) { w.Found(testSlice("s", generation(2))) }, []*discoveryv1.EndpointSlice{testSlice("s")}, 1,
			[]*discoveryv1.EndpointSlice{testSlice("s")}, true},
		"updated, then deleted by others": {func(w *Ledger) { w.Found(testSlice("s", generation(2))) },
			[]*discoveryv1.EndpointSlice{testSlice("s")}, 1, nil, false},
		"EPM-53: annotated, unseen": {func(w *Ledger) {
			w.Updated(testSlice("s", version("2")), []*discoveryv1.EndpointSlice{testSlice("s", version("1"))})
		},
			[]*discoveryv1.EndpointSlice{testSlice("s", version("1"))}, 1, []*discoveryv1.EndpointSlice{testSlice("s", version("1"))}, true},
		"EPM-53: annotated, then seen": {func(w *Ledger) {
			w.Updated(testSlice("s", version("2")), []*discoveryv1.EndpointSlice{testSlice("s", version("1"))})
		},
			[]*discoveryv1.EndpointSlice{testSlice("s", version("1"))}, 1, []*discoveryv1.EndpointSlice{testSlice("s", version("2"))}, false},
		"deleted, unseen": {func(w *Ledger) { w.Tracker.ExpectDeletion(testSlice("s")) }, []*discoveryv1.EndpointSlice{testSlice("s")}, 1,
			[]*discoveryv1.EndpointSlice{testSlice("s")}, true},
		"deleted, then seen": {func(w *Ledger) { w.Tracker.ExpectDeletion(testSlice("s")) }, []*discoveryv1.EndpointSlice{testSlice("s")}, 1, nil, false},
		"deleted, finalizing": {func(w *Ledger) { w.Tracker.ExpectDeletion(testSlice("s")) },
			[]*discoveryv1.EndpointSlice{testSlice("s", terminating)}, 0, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			old, _ := testLedger()
			tc.track(old)
			unseen := old.unseenOf(web, tc.atLeave)
			if len(unseen) != tc.unseen {
				t.Fatalf("unseen writes are %+v, want %d", unseen, tc.unseen)
			}
			successor, _ := testLedger()
			for _, s := range tc.atReturn {
				successor.Found(s)
			}
			for _, w := range unseen {
				successor.expect(w, tc.atReturn)
			}
			if got := successor.Stale(context.Background(), web, tc.atReturn); got != tc.stale {
				t.Errorf("stale = %v, want %v", got, tc.stale)
			}
		})
	}
}
