package breaker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
)

var (
	configMaps = schema.GroupResource{Resource: "configmaps"}
	jobs       = schema.GroupResource{Group: "batch", Resource: "jobs"}
)

// world is a breaker and what it works with.
type world struct {
	*Breaker
	t        *testing.T
	clock    *clocktesting.FakePassiveClock
	registry metrics.KubeRegistry
	config   *v1beta1.KubeControllerManagerConfiguration
	// objects are how many there are of a kind that are not being deleted; of another kind there is
	// no cache. inNamespace are how many of them are in any one namespace.
	objects     map[schema.GroupResource]int
	inNamespace int
	deleting    bool // whether what is asked for is being deleted already
	uid         types.UID
	filling     bool
	vanishing   bool // whether the cache is closed, or filled again, before all objects are counted
	counts      int  // of all objects
	announced   []string
}

func (w *world) Undeleted(of schema.GroupResource, namespace, name string) (int, bool, bool) {
	all, cached := w.objects[of]
	switch {
	case !cached || w.filling:
		return 0, cached, false
	case name != "" && w.deleting:
		return 0, true, true
	case name != "":
		return 1, true, true
	case namespace != "":
		return w.inNamespace, true, true
	}
	w.counts++
	if w.vanishing {
		return 0, false, false
	}
	return all, true, true
}

func (w *world) UIDOf(schema.GroupResource, string, string) types.UID { return w.uid }

// newWorld begins with the mode Stop, a window of 5 minutes, a share of 20 percent and a minimum of
// 10 objects.
func newWorld(t *testing.T) *world {
	w := &world{
		t: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)), registry: metrics.NewKubeRegistry(),
		config: v1beta1.NewDefault(), objects: map[schema.GroupResource]int{configMaps: 1000, jobs: 1000}, uid: "u",
	}
	w.Breaker = New(Options{
		Caches: func() Caches { return w }, Metrics: NewMetrics(w.registry), Clock: w.clock,
		Announce: func(_ context.Context, s Stop, stopped bool) {
			w.announced = append(w.announced, fmt.Sprintf("%s %t", s.Resource, stopped))
		},
	})
	w.edit(func(b *v1beta1.DeletionBreaker) { b.Mode, b.Minimum = v1beta1.DeletionsStop, ptr.To(int32(10)) })
	return w
}

// edit changes the configuration, and returns what goes on by that.
func (w *world) edit(change func(*v1beta1.DeletionBreaker)) string {
	change(&w.config.DeletionBreaker)
	var names []string
	for _, s := range w.Apply(w.config) {
		names = append(names, s.Resource)
	}
	return strings.Join(names, " ")
}

func (w *world) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// delete deletes objects one by one, and returns how many were before the first that was refused.
func (w *world) delete(of schema.GroupResource, n int) int {
	w.t.Helper()
	for i := range n {
		counted, err := w.Ask(w.t.Context(), "collector", of, "ns", fmt.Sprint("o-", i))
		if err != nil {
			return i
		}
		if counted == 0 || !w.On() {
			continue
		}
		w.objects[of] -= counted
	}
	return n
}

// A cache that was closed after a deletion was looked up in it, as those of a connection are that is replaced, does not
// show that there are no other objects: nothing is stopped for that. Pins MGR-232.
func TestACacheThatIsClosedStopsNothing(t *testing.T) {
	w := newWorld(t)
	if got := w.delete(configMaps, 10); got != 10 {
		t.Fatalf("%d of the minimum were deleted", got)
	}
	w.vanishing = true
	_, err := w.Ask(t.Context(), "collector", configMaps, "ns", "next")
	var stopped *controller.StoppedError
	if err == nil || errors.As(err, &stopped) || w.Stopped(configMaps) || len(w.announced) > 0 {
		t.Errorf("without a cache: %v, stopped %v, announced %q; want an error that is tried again", err, w.Stopped(configMaps), w.announced)
	}
	w.vanishing = false
	if got := w.delete(configMaps, 100); got != 100 {
		t.Errorf("with the cache: %d were deleted", got)
	}
	w.edit(func(b *v1beta1.DeletionBreaker) { b.Mode = v1beta1.DeletionsWarn })
	w.pass(time.Hour)
	w.delete(configMaps, 10)
	w.vanishing = true
	if n, err := w.Ask(t.Context(), "collector", configMaps, "ns", "next"); n != 0 || err != nil || len(w.announced) > 0 {
		t.Errorf("in the mode Warn: %d, %v, announced %q", n, err, w.announced)
	}
}

func TestLimit(t *testing.T) {
	s := settings{share: 20, minimum: 50}
	for objects, want := range map[int]int{0: 50, 100: 50, 250: 50, 255: 51, 1000: 200} {
		if got := s.limit(objects); got != want {
			t.Errorf("of %d objects %d may be deleted, want %d", objects, got, want)
		}
	}
}

func TestTallyIsOfAWindowThatMoves(t *testing.T) {
	var counted tally
	now := time.Unix(0, 0)
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	const window = 100 * time.Second
	for _, step := range []struct{ at, add, giveBack, want, parts int }{
		{0, 3, 0, 3, 1},
		{4, 1, 0, 4, 1}, // the same part of the window
		{5, 2, 0, 6, 2},
		{50, 4, 5, 5, 3}, // more than was counted last
		{99, 0, 0, 5, 3},
		{100, 0, 0, 1, 2}, // the first part is over
		{105, 0, 0, 0, 1},
		{110, 0, 9, 0, 1},
		{150, 7, 0, 7, 1},
	} {
		counted.within(window, at(step.at))
		if step.add > 0 {
			counted.add(step.add, window, at(step.at))
		}
		counted.giveBack(step.giveBack)
		if got := counted.within(window, at(step.at)); got != step.want || len(counted) != step.parts {
			t.Errorf("at %d: %d in %d parts, want %d in %d", step.at, got, len(counted), step.want, step.parts)
		}
	}
}

func TestAKindIsStoppedAtItsShare(t *testing.T) {
	w := newWorld(t)
	if n := w.delete(configMaps, 1000); n != 200 {
		t.Errorf("%d of 1000 were deleted, want 200", n)
	}
	if !w.Stopped(configMaps) || w.Stopped(jobs) {
		t.Error("it is not stopped, or another kind is")
	}
	if n := w.delete(jobs, 100); n != 100 {
		t.Errorf("%d of another kind were deleted", n)
	}
	_, err := w.Ask(t.Context(), "another", configMaps, "ns", "x")
	var stopped *controller.StoppedError
	const why = "collector was about to delete one more of 1000 configmaps when 200 had been deleted within 5m; the limit is 200"
	if !errors.As(err, &stopped) || stopped.Resource != configMaps || stopped.Why != why {
		t.Errorf("refused with %v", err)
	}
	if want := []string{"configmaps true"}; !slices.Equal(w.announced, want) {
		t.Errorf("announced %q", w.announced)
	}
	w.pass(time.Hour)
	if n := w.delete(configMaps, 1); n != 0 {
		t.Error("it went on by itself")
	}
	if w.counts != 2 {
		t.Errorf("the objects were counted %d times, want once for each kind", w.counts)
	}
	const series = `# HELP kcmd_deletions_exceeded_timestamp_seconds [ALPHA] Last time at which controllers were about to delete more objects of a resource than deletionBreaker allows, whether or not that stopped them.
# TYPE kcmd_deletions_exceeded_timestamp_seconds gauge
kcmd_deletions_exceeded_timestamp_seconds{group="",resource="configmaps"} 1.777896e+09
# HELP kcmd_deletions_stopped_since_timestamp_seconds [ALPHA] Time since which this process deletes no objects of a resource, because controllers were about to delete more than deletionBreaker allows.
# TYPE kcmd_deletions_stopped_since_timestamp_seconds gauge
kcmd_deletions_stopped_since_timestamp_seconds{group="",resource="configmaps"} 1.777896e+09
`
	if err := testutil.GatherAndCompare(w.registry, strings.NewReader(series)); err != nil {
		t.Error(err)
	}
}

func TestTheMinimumMayAlwaysBeDeleted(t *testing.T) {
	w := newWorld(t)
	w.objects[configMaps] = 10
	if n := w.delete(configMaps, 10); n != 10 || w.counts != 0 {
		t.Errorf("%d were deleted, and all counted %d times", n, w.counts)
	}
}

func TestDeletionsThatAreSpreadOutGoOn(t *testing.T) {
	w := newWorld(t)
	for range 4 {
		if n := w.delete(configMaps, 100); n != 100 {
			t.Fatalf("%d were deleted", n)
		}
		w.pass(5 * time.Minute)
	}
}

// The namespace controller deletes everything of a kind in a namespace with one request.
func TestACollectionCountsAsWhatIsInIt(t *testing.T) {
	w := newWorld(t)
	w.inNamespace = 150
	if n, err := w.Ask(t.Context(), "namespaces", configMaps, "a", ""); n != 150 || err != nil {
		t.Errorf("counted %d, %v", n, err)
	}
	w.objects[configMaps] -= 150
	if n := w.delete(configMaps, 1); n != 1 {
		t.Error("a single deletion was refused")
	}
	if _, err := w.Ask(t.Context(), "namespaces", configMaps, "b", ""); err == nil {
		t.Error("the second namespace was not refused")
	}
	w.inNamespace = 0
	if n, err := w.Ask(t.Context(), "namespaces", configMaps, "c", ""); n != 0 || err != nil {
		t.Errorf("a namespace whose objects are being deleted is refused: %d, %v", n, err)
	}
}

func TestWhatIsNotCounted(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"being deleted already": func(w *world) { w.deleting = true },
		"not cached":            func(w *world) { delete(w.objects, configMaps) },
		"exempt": func(w *world) {
			w.edit(func(b *v1beta1.DeletionBreaker) {
				b.ExemptResources = []v1beta1.GroupResource{{Resource: "configmaps"}}
			})
		},
		"allowed": func(w *world) {
			w.edit(func(b *v1beta1.DeletionBreaker) { b.AllowUntil = "2026-05-04T15:00:00+02:00" })
		},
		"off": func(w *world) { w.edit(func(b *v1beta1.DeletionBreaker) { b.Mode = v1beta1.DeletionsDisabled }) },
	} {
		w := newWorld(t)
		change(w)
		if n := w.delete(configMaps, 900); n != 900 || len(w.announced) != 0 {
			t.Errorf("%s: %d were deleted, announced %q", name, n, w.announced)
		}
	}
}

func TestNothingIsDeletedOfAKindWhoseCacheIsBeingFilled(t *testing.T) {
	w := newWorld(t)
	w.filling = true
	_, err := w.Ask(t.Context(), "collector", configMaps, "ns", "x")
	if _, stopped := controller.StoppedIn(err); err == nil || stopped || w.Stopped(configMaps) {
		t.Errorf("refused with %v, want an error that is tried again", err)
	}
	w.edit(func(b *v1beta1.DeletionBreaker) { b.Mode = v1beta1.DeletionsWarn })
	if n := w.delete(configMaps, 1); n != 1 {
		t.Error("it was refused in the mode Warn")
	}
}

func TestWhatWasNotDeletedIsGivenBack(t *testing.T) {
	w := newWorld(t)
	for range 1000 {
		n, err := w.Ask(t.Context(), "collector", configMaps, "ns", "x")
		if err != nil {
			t.Fatal(err)
		}
		w.GiveBack(configMaps, n)
	}
}

// While a webhook fails, a controller repeats the deletion of each object.
func TestADeletionThatIsRepeatedCountsOnce(t *testing.T) {
	w := newWorld(t)
	asked := w.clock.Now()
	for range 1000 {
		if _, err := w.Ask(t.Context(), "collector", configMaps, "ns", "x"); err != nil {
			t.Fatal(err)
		}
		w.Unclear(configMaps, "ns", "x", asked)
	}
	if n := w.delete(configMaps, 1000); n != 199 {
		t.Errorf("%d of 1000 were deleted, want 199 and the one that is unclear", n)
	}
	if n, err := w.Ask(t.Context(), "collector", configMaps, "ns", "x"); n != 0 || err == nil {
		t.Errorf("it is repeated although the kind is stopped: %d, %v", n, err)
	}
}

// What is remembered of a deletion is forgotten when it is no longer counted.
func TestADeletionThatIsRepeatedInAnotherWindowCountsAgain(t *testing.T) {
	w := newWorld(t)
	ask := func(want int) {
		t.Helper()
		asked := w.clock.Now()
		if n, err := w.Ask(t.Context(), "collector", configMaps, "ns", "x"); n != want || err != nil {
			t.Errorf("counted %d, %v, want %d", n, err, want)
		}
		w.pass(time.Minute)
		w.Unclear(configMaps, "ns", "x", asked)
	}
	ask(1)
	for range 4 {
		ask(0)
	}
	ask(1)
	w.pass(10 * time.Minute)
	w.Unclear(configMaps, "ns", "y", w.clock.Now())
	if n := len(w.kinds[configMaps].unclear.deletions); n != 1 {
		t.Errorf("%d deletions are remembered", n)
	}
	w.deleting = true // what is left of it
	w.Unclear(configMaps, "ns", "z", w.clock.Now())
	w.Unclear(jobs, "ns", "z", w.clock.Now()) // of a kind that was not counted
	if n := len(w.kinds[configMaps].unclear.deletions); n != 1 || w.kinds[jobs] != nil {
		t.Errorf("%d deletions are remembered", n)
	}
}

// A deletion with an unknown outcome is remembered for as long as it is counted, and no longer: what is repeated then
// would count in no window. Pins MGR-214.
func TestADeletionThatIsNotCountedAnyMoreIsNotRememberedEither(t *testing.T) {
	w := newWorld(t)
	w.delete(configMaps, 1)
	w.pass(5*time.Minute/steps - time.Second)
	const unclear = 150
	asked := w.clock.Now()
	if n := w.delete(configMaps, unclear); n != unclear {
		t.Fatalf("%d of 1000 were deleted, want %d", n, unclear)
	}
	for i := range unclear {
		w.Unclear(configMaps, "ns", fmt.Sprint("o-", i), asked)
	}
	w.pass(5*time.Minute - (5*time.Minute/steps - time.Second)) // 5 minutes after the first one
	w.objects[configMaps] = 1000
	if n := w.delete(configMaps, 201); n != 200 {
		t.Errorf("%d of 1000 were deleted within moments, want 200", n)
	}
}

// The deletion was carried out although its answer was lost, and another object has the name by now: of a StatefulSet,
// for instance. Pins MGR-227.
func TestTheDeletionOfAnotherObjectOfTheSameNameCounts(t *testing.T) {
	w := newWorld(t)
	ask := func(uid types.UID, want int) {
		t.Helper()
		w.uid = uid
		asked := w.clock.Now()
		if n, err := w.Ask(t.Context(), "collector", configMaps, "ns", "x"); n != want || err != nil {
			t.Errorf("%s: counted %d, %v, want %d", uid, n, err, want)
		}
		w.objects[configMaps] -= want
		w.Unclear(configMaps, "ns", "x", asked)
	}
	ask("a", 1)
	ask("a", 0)
	ask("b", 1)
	ask("b", 0)
	ask("", 1) // the cache shows none
	ask("c", 1)
	w.uid = "" // the cache shows that it is gone before the answer is given up
	w.Unclear(configMaps, "ns", "x", w.clock.Now())
	for i := range 196 {
		ask(types.UID(fmt.Sprint("e-", i)), 1)
	}
	w.uid = "f"
	if _, err := w.Ask(t.Context(), "collector", configMaps, "ns", "x"); err == nil {
		t.Error("more than 200 of 1000 were deleted")
	}
}

// What is counted again when it is repeated is remembered again, also if others have been counted shortly before.
func TestADeletionThatIsCountedAgainIsRememberedAgain(t *testing.T) {
	w := newWorld(t)
	ask := func(name string, want int) {
		t.Helper()
		asked := w.clock.Now()
		if n, err := w.Ask(t.Context(), "collector", configMaps, "ns", name); n != want || err != nil {
			t.Errorf("%s: counted %d, %v, want %d", name, n, err, want)
		}
		w.Unclear(configMaps, "ns", name, asked)
	}
	ask("x", 1)
	w.pass(5*time.Minute - time.Second)
	ask("y", 1)
	w.pass(2 * time.Second)
	ask("x", 1)
	w.pass(time.Second)
	ask("x", 0)
}

// Of a collection, the API server may have deleted some objects before it failed.
func TestWhatIsLeftOfACollectionIsNotCountedAgain(t *testing.T) {
	w := newWorld(t)
	ask := func(there, want int) {
		t.Helper()
		w.inNamespace = there
		if n, err := w.Ask(t.Context(), "namespaces", configMaps, "a", ""); n != want || err != nil {
			t.Errorf("%d there: counted %d, %v, want %d", there, n, err, want)
		}
	}
	ask(150, 150)
	w.inNamespace = 100
	w.Unclear(configMaps, "a", "", w.clock.Now())
	ask(100, 0)
	ask(120, 20)
	w.Unclear(configMaps, "a", "", w.clock.Now())
	ask(120, 0)
	w.inNamespace = 31
	if _, err := w.Ask(t.Context(), "namespaces", configMaps, "b", ""); err == nil {
		t.Error("another namespace is not counted")
	}
}

// A cluster can grow within the window. It is counted again before anything is stopped, though not for each deletion.
func TestAKindThatHasGrownIsCountedAgain(t *testing.T) {
	w := newWorld(t)
	w.objects[configMaps] = 60
	if n := w.delete(configMaps, 12); n != 12 || w.counts != 1 {
		t.Errorf("%d were deleted, all counted %d times", n, w.counts)
	}
	w.objects[configMaps] = 1000
	w.pass(time.Minute)
	if n := w.delete(configMaps, 190); n != 190 || w.counts != 2 {
		t.Errorf("%d were deleted, all counted %d times", n, w.counts)
	}
	w.objects[configMaps] = 5000
	w.pass(time.Second)
	if n := w.delete(configMaps, 100); n != 0 || w.counts != 2 {
		t.Errorf("%d were deleted at once, all counted %d times", n, w.counts)
	}
}

// Another API server, or the same one after a restore of etcd, has other objects: what was counted says nothing about
// them. What is stopped stays so. Pins MGR-213.
func TestAnotherConnectionIsCountedAnew(t *testing.T) {
	w := newWorld(t)
	w.objects[configMaps] = 100_000
	if n := w.delete(configMaps, 1000); n != 1000 {
		t.Fatalf("%d were deleted", n)
	}
	asked := w.clock.Now()
	w.Unclear(configMaps, "ns", "o-0", asked)
	w.objects[jobs] = 20
	if n := w.delete(jobs, 11); n != 10 || !w.Stopped(jobs) {
		t.Fatalf("%d were deleted", n)
	}
	w.objects[configMaps], w.objects[jobs] = 100, 1000
	other := &world{objects: w.objects}
	w.options.Caches = func() Caches { return other }
	if n := w.delete(configMaps, 100); n != 20 {
		t.Errorf("%d of 100 were deleted, want 20", n)
	}
	if n := w.delete(jobs, 1); n != 0 || !w.Stopped(jobs) {
		t.Errorf("%d were deleted of what is stopped", n)
	}

	w.edit(func(b *v1beta1.DeletionBreaker) { b.Mode = v1beta1.DeletionsWarn })
	warned := func() int {
		w.announced = nil
		w.objects[jobs] = 20
		w.delete(jobs, 15)
		return len(w.announced)
	}
	if n := warned(); n != 1 {
		t.Errorf("%d warnings", n)
	}
	w.options.Caches = func() Caches { return w }
	if n := warned(); n != 1 {
		t.Errorf("%d warnings about the other connection", n)
	}
}

// A process may start with a time that is too far ahead, since its clock may be wrong.
func TestATimeTooFarAheadAllowsNothing(t *testing.T) {
	w := newWorld(t)
	until := w.clock.Now().Add(v1beta1.MaxAllowance + time.Hour)
	allow := func(b *v1beta1.DeletionBreaker) { b.AllowUntil = until.Format(time.RFC3339) }
	w.edit(allow)
	if n := w.delete(configMaps, 1000); n != 200 || !w.On() || !w.Status().AllowedUntil.IsZero() {
		t.Errorf("%d were deleted, the status is %+v", n, w.Status())
	}
	w.pass(2 * time.Hour)
	if n := w.delete(configMaps, 1); n != 0 || !w.On() {
		t.Error("it is allowed without an edit")
	}
	if got := w.edit(allow); got != "" || !w.On() { // an edit of something else, or a file that has changed
		t.Errorf("%q go on without an edit of the time", got)
	}
	until = until.Add(-time.Minute)
	if got := w.edit(allow); got != "configmaps" || w.On() {
		t.Errorf("%q go on by an edit when the time is near enough", got)
	}
}

// One edit lets what is stopped go on, for a time.
func TestAnAllowanceEnds(t *testing.T) {
	w := newWorld(t)
	told := 0
	end := w.Follow(func() { told++ })
	w.delete(configMaps, 1000)
	w.delete(jobs, 1000)
	if got := w.Status(); got.Mode != "Stop" || len(got.Stops) != 2 || got.Stops[0].Resource != "configmaps" || got.Stops[1].Resource != "jobs.batch" {
		t.Errorf("the status is %+v", got)
	}
	until := w.clock.Now().Add(time.Hour)
	if got := w.edit(func(b *v1beta1.DeletionBreaker) { b.AllowUntil = until.Format(time.RFC3339) }); got != "configmaps jobs.batch" || told != 1 {
		t.Errorf("%q go on, told %d times", got, told)
	}
	if got := w.Status(); !got.AllowedUntil.Equal(until) || len(got.Stops) != 0 || w.On() {
		t.Errorf("the status is %+v", got)
	}
	w.pass(time.Hour - time.Second)
	if n := w.delete(configMaps, 300); n != 300 {
		t.Errorf("%d were deleted while it was allowed", n)
	}
	w.pass(time.Second)
	left := w.objects[configMaps]
	if n := w.delete(configMaps, left); !w.On() || n != left/5 {
		t.Errorf("%d of %d were deleted afterwards", n, left)
	}
	if got := w.Status(); !got.AllowedUntil.IsZero() || len(got.Stops) != 1 {
		t.Errorf("the status is %+v", got)
	}
	end()
	w.edit(func(b *v1beta1.DeletionBreaker) { b.Mode = v1beta1.DeletionsDisabled })
	if told != 1 || w.Status() != nil || w.On() {
		t.Errorf("told %d times, the status is %+v", told, w.Status())
	}
	if err := testutil.GatherAndCompare(w.registry, strings.NewReader(""), "kcmd_deletions_stopped_since_timestamp_seconds"); err != nil {
		t.Error(err)
	}
}

// Other settings let a kind go on only if the deletion would not have been too many.
func TestWhichEditsLetAKindGoOn(t *testing.T) {
	for name, row := range map[string]struct {
		edit func(*v1beta1.DeletionBreaker)
		want string
	}{
		"nothing":           {func(*v1beta1.DeletionBreaker) {}, ""},
		"another window":    {func(b *v1beta1.DeletionBreaker) { b.Window.Duration = time.Hour }, ""},
		"less":              {func(b *v1beta1.DeletionBreaker) { b.Share = ptr.To(int32(1)) }, ""},
		"a greater share":   {func(b *v1beta1.DeletionBreaker) { b.Share = ptr.To(int32(21)) }, "configmaps"},
		"a greater minimum": {func(b *v1beta1.DeletionBreaker) { b.Minimum = ptr.To(int32(201)) }, "configmaps"},
		"too low a minimum": {func(b *v1beta1.DeletionBreaker) { b.Minimum = ptr.To(int32(200)) }, ""},
		"warning":           {func(b *v1beta1.DeletionBreaker) { b.Mode = v1beta1.DeletionsWarn }, "configmaps"},
		"off":               {func(b *v1beta1.DeletionBreaker) { b.Mode = v1beta1.DeletionsDisabled }, "configmaps"},
		"exempt": {func(b *v1beta1.DeletionBreaker) {
			b.ExemptResources = []v1beta1.GroupResource{{Resource: "configmaps"}}
		}, "configmaps"},
		"another is exempt":  {func(b *v1beta1.DeletionBreaker) { b.ExemptResources = []v1beta1.GroupResource{{Resource: "secrets"}} }, ""},
		"allowed before now": {func(b *v1beta1.DeletionBreaker) { b.AllowUntil = "2026-05-04T12:00:00Z" }, ""},
	} {
		w := newWorld(t)
		w.delete(configMaps, 1000)
		if got := w.edit(row.edit); got != row.want || w.Stopped(configMaps) != (row.want == "") {
			t.Errorf("%s: %q goes on, want %q; it is stopped: %t", name, got, row.want, w.Stopped(configMaps))
		}
	}
}

func TestAWarningStopsNothingAndIsGivenOncePerWindow(t *testing.T) {
	w := newWorld(t)
	w.edit(func(b *v1beta1.DeletionBreaker) { b.Mode = v1beta1.DeletionsWarn })
	if n := w.delete(configMaps, 400); n != 400 || w.Stopped(configMaps) {
		t.Errorf("%d were deleted, it is stopped: %t", n, w.Stopped(configMaps))
	}
	if want := []string{"configmaps false"}; !slices.Equal(w.announced, want) {
		t.Errorf("announced %q, want %q", w.announced, want)
	}
	if got := w.Status(); got.Mode != "Warn" || len(got.Stops) != 0 {
		t.Errorf("the status is %+v", got)
	}
	w.edit(func(*v1beta1.DeletionBreaker) {}) // of something else
	w.delete(configMaps, 400)
	if len(w.announced) != 1 {
		t.Errorf("announced %q", w.announced)
	}
	w.pass(5 * time.Minute)
	w.delete(configMaps, 400)
	if len(w.announced) != 2 {
		t.Errorf("announced %q", w.announced)
	}
	if got := w.edit(func(b *v1beta1.DeletionBreaker) { b.Mode = v1beta1.DeletionsStop }); got != "" || w.Stopped(configMaps) {
		t.Errorf("by the mode Stop %q goes on; it is stopped: %t", got, w.Stopped(configMaps))
	}
	if n := w.delete(configMaps, 100); n != 0 {
		t.Errorf("%d more were deleted in the mode Stop, after 400 within the window", n)
	}
}

func TestRemedy(t *testing.T) {
	const want = `If that is intended, set deletionBreaker.allowUntil in the configuration file to the time until which deletions may go on, such as "2026-05-04T13:00:00Z".`
	if got := Remedy(time.Date(2026, 5, 4, 12, 0, 59, 0, time.UTC)); got != want {
		t.Errorf("got %s", got)
	}
}
