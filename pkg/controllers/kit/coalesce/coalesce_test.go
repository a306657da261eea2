package coalesce

import (
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestDelayIsTheRestOfTheWindow(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	w := New[string](clock)
	check := func(key string, want time.Duration) {
		t.Helper()
		if got := w.Delay(key); got != want {
			t.Errorf("delay of %s is %v, want %v", key, got, want)
		}
	}
	check("a", 0)
	w.Wrote("a", "1")
	check("a", Window)
	check("b", 0)
	clock.Step(Window / 4)
	check("a", Window*3/4)
	w.Wrote("a", "2")
	check("a", Window)
	clock.Step(Window)
	check("a", 0)
	w.Wrote("a", "3")
	clock.SetTime(time.Unix(0, 0))
	check("a", Window)
}

func TestIsEchoKnowsTheLastWriteOnly(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	w := New[string](clock)
	w.Wrote("a", "1")
	w.Wrote("a", "2")
	w.Wrote("unversioned", "")
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
		if got := w.IsEcho(test.key, test.version); got != test.want {
			t.Errorf("IsEcho(%q, %q) = %v", test.key, test.version, got)
		}
	}
}

// An object that shows a version again long after it was written was brought back by a
// backup.
func TestAnOldVersionIsNoEcho(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	w := New[string](clock)
	w.Wrote("a", "1")
	clock.Step(echoTime)
	if !w.IsEcho("a", "1") {
		t.Error("it is not recognised")
	}
	clock.Step(1)
	if w.IsEcho("a", "1") {
		t.Error("it is recognised for ever")
	}
}

func TestOldWritesAreForgotten(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	w := New[string](clock)
	for i := range 1000 {
		w.Wrote(fmt.Sprint("once", i), "1")
		w.Wrote("often", fmt.Sprint(i))
		clock.Step(100 * time.Millisecond)
	}
	if limit := int(2 * echoTime / (100 * time.Millisecond)); len(w.recent) > limit || len(w.order) > limit+2 {
		t.Errorf("remembers %d objects, %d writes", len(w.recent), len(w.order))
	}
	if !w.IsEcho("often", "999") || w.IsEcho("once0", "1") {
		t.Error("forgot a recent write, or remembers an old one")
	}
	clock.Step(echoTime + time.Second)
	w.Wrote("last", "1")
	if len(w.recent) != 1 || len(w.order) != 1 {
		t.Errorf("remembers %d objects, %d writes", len(w.recent), len(w.order))
	}
}
