package faults

import (
	"testing"
	"time"
)

func fired(t *testing.T, c <-chan time.Time, want bool) {
	t.Helper()
	if !want {
		select {
		case <-c:
			t.Error("it fired")
		default:
		}
		return
	}
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Error("it did not fire")
	}
}

func TestALeapEndsWaits(t *testing.T) {
	t.Parallel()
	c := newLeapingClock()
	before := c.Now()
	soon, late, stopped := c.NewTimer(time.Hour), c.NewTimer(3*time.Hour), c.NewTimer(time.Hour)
	stopped.Stop()
	c.leap(2 * time.Hour)
	fired(t, soon.C(), true)
	fired(t, late.C(), false)
	fired(t, stopped.C(), false)
	if passed := c.Since(before); passed < 2*time.Hour || passed > 3*time.Hour {
		t.Errorf("%s have passed", passed)
	}
	if !c.lately(time.Hour) || c.lately(0) {
		t.Error("it is not known when the clock leapt")
	}

	soon.Reset(2 * time.Hour) // again
	c.leap(time.Hour + time.Minute)
	fired(t, soon.C(), false)
	fired(t, late.C(), true)
	c.leap(time.Hour)
	fired(t, soon.C(), true)
}

// What has fired is not fired again by a leap.
func TestALeapLeavesWhatHasFired(t *testing.T) {
	t.Parallel()
	c := newLeapingClock()
	timer := c.NewTimer(0)
	fired(t, timer.C(), true)
	c.leap(time.Hour)
	fired(t, timer.C(), false)
	if len(c.timers) > 0 {
		t.Errorf("%d timers are kept", len(c.timers))
	}
}
