package writes

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// named is an owner whose UID is its name.
func named(name string) *corev1.Pod { return pod(name, types.UID(name), "1") }

// Pins WL-103.
func TestDelayIsTheRestOfTheWindow(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	w := New(clock, nil)
	check := func(key string, want time.Duration) {
		t.Helper()
		if got := w.StatusDelay(named(key)); got != want {
			t.Errorf("delay of %s is %v, want %v", key, got, want)
		}
	}
	check("a", 0)
	w.WroteStatus(named("a"), "1")
	check("a", Window)
	check("b", 0)
	clock.Step(Window / 4)
	check("a", Window*3/4)
	w.WroteStatus(named("a"), "2")
	check("a", Window)
	clock.Step(Window)
	check("a", 0)
	w.WroteStatus(named("a"), "3")
	clock.SetTime(time.Unix(0, 0))
	check("a", Window)
}

// Pins WL-103.
func TestCountsAreWrittenWhenTheyAreQuiet(t *testing.T) {
	const window = 4 * CountsQuiet
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	w, owner := New(clock, nil), named("a")
	check := func(counts int, want time.Duration) {
		t.Helper()
		if got := w.CountsDelay(owner, counts, window); got != want {
			t.Errorf("the delay of %d is %v, want %v", counts, got, want)
		}
	}
	check(1, 0)
	w.WroteStatus(owner, "1")
	check(2, CountsQuiet)
	clock.Step(CountsQuiet / 3)
	check(2, CountsQuiet*2/3)
	check(3, CountsQuiet)
	clock.Step(CountsQuiet)
	check(3, 0)
	w.WroteStatus(owner, "2")
	check(3, CountsQuiet) // what was put off is forgotten
	for n := range 7 {
		clock.Step(CountsQuiet / 2)
		check(10+n, min(CountsQuiet, window-time.Duration(n+1)*CountsQuiet/2))
	}
	clock.Step(CountsQuiet / 2)
	check(20, 0) // they still change, but the window is over
	w.WroteStatus(owner, "3")
	clock.SetTime(time.Unix(0, 0))
	check(21, CountsQuiet)
	clock.Step(CountsQuiet)
	check(21, 0)
}

// Pins RS-53.
func TestCountsThatChangeBeginAWindow(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	w, owner := New(clock, nil), named("a")
	counts := 0
	check := func(want time.Duration) {
		t.Helper()
		counts++
		if got := w.CountsDelay(owner, counts, CountsWindow); got != want || w.CountsChanging(owner) != (want > 0) {
			t.Errorf("the delay is %v, want %v; they change: %v", got, want, w.CountsChanging(owner))
		}
	}
	w.WroteStatus(owner, "1")
	clock.Step(CountsWindow)
	check(0)
	w.CountsChange(owner)
	check(CountsQuiet)
	if !w.IsEcho(pod("a", "a", "1")) {
		t.Error("the last write is forgotten")
	}
	clock.Step(CountsWindow)
	w.CountsChange(owner) // which does not extend it
	check(0)
	w.WroteStatus(owner, "2")
	clock.Step(CountsWindow)
	w.CountsChange(owner)
	check(CountsQuiet)
	clock.Step(2 * CountsWindow) // nothing was to be written
	w.CountsChange(owner)
	check(CountsQuiet)
	if w.CountsChanging(pod("a", "recreated", "1")) {
		t.Error("a namesake is taken for the owner")
	}
	w.CountsChange(owner)
	clock.Step(echoTime + 1)
	w.CountsChange(named("another"))
	if len(w.owners) != 1 || len(w.statuses) != 1 {
		t.Errorf("remembers %d owners, %d times", len(w.owners), len(w.statuses))
	}
}

// Pins WL-103.
func TestIsEchoKnowsTheLastWriteOnly(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	w := New(clock, nil)
	w.WroteStatus(named("a"), "1")
	w.WroteStatus(named("a"), "2")
	w.WroteStatus(named("unversioned"), "")
	if w.IsEcho(pod("a", "recreated", "2")) {
		t.Error("a namesake is taken for the owner")
	}
	for _, test := range []struct {
		key, version string
		want         bool
	}{
		{"a", "2", true},
		{"a", "1", false},
		{"a", "", false},
		{"b", "2", false},
		{"unversioned", "", false},
	} {
		if got := w.IsEcho(pod(test.key, types.UID(test.key), test.version)); got != test.want {
			t.Errorf("IsEcho(%q, %q) = %v", test.key, test.version, got)
		}
	}
}

// An object that shows a version again long after it was written was brought back by a
// backup.
func TestAnOldVersionIsNoEcho(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	w := New(clock, nil)
	w.WroteStatus(named("a"), "1")
	clock.Step(echoTime)
	if !w.IsEcho(pod("a", "a", "1")) {
		t.Error("it is not recognised")
	}
	clock.Step(1)
	if w.IsEcho(pod("a", "a", "1")) {
		t.Error("it is recognised for ever")
	}
}

func TestOldWritesAreForgotten(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	w := New(clock, nil)
	for i := range 1000 {
		w.WroteStatus(named(fmt.Sprint("once", i)), "1")
		w.WroteStatus(named("often"), fmt.Sprint(i))
		clock.Step(100 * time.Millisecond)
	}
	if limit := int(2 * echoTime / (100 * time.Millisecond)); len(w.owners) > limit || len(w.statuses) > limit+2 {
		t.Errorf("remembers %d objects, %d writes", len(w.owners), len(w.statuses))
	}
	if !w.IsEcho(pod("often", "often", "999")) || w.IsEcho(pod("once0", "once0", "1")) {
		t.Error("forgot a recent write, or remembers an old one")
	}
	clock.Step(echoTime + time.Second)
	w.WroteStatus(named("last"), "1")
	if len(w.owners) != 1 || len(w.statuses) != 1 {
		t.Errorf("remembers %d objects, %d writes", len(w.owners), len(w.statuses))
	}
}
