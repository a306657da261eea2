package simulation

import (
	"testing"
	"time"
)

func TestTimersDoNotFollowAClockThatIsSet(t *testing.T) {
	w := New(t, 1)
	wall := NewWall(w)
	timer := wall.NewTimer(time.Minute)
	wall.Ahead = time.Hour
	if ahead := wall.Since(w.Clock.Now()); ahead != time.Hour {
		t.Errorf("it is %v ahead", ahead)
	}
	select {
	case <-timer.C():
		t.Error("the timer ended when the clock was set")
	default:
	}
	w.Clock.Step(time.Minute)
	select {
	case <-timer.C():
	default:
		t.Error("the timer goes on after its time")
	}
}
