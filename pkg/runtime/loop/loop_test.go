package loop

import (
	"context"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestTheWatchdogNoticesWhatNeverEnds(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	w := NewWatchdog(clk)
	later := func(d time.Duration) { clk.SetTime(clk.Now().Add(d)) }
	wants := func(want string) {
		t.Helper()
		got := ""
		if err := w.Check(time.Minute); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	later(time.Hour)
	wants("")
	end := w.Begin("a reload")
	later(time.Minute)
	wants("")
	later(time.Second)
	wants("a reload has not completed for 1m1s")
	inner := w.Begin("a change of what runs")
	wants("")
	later(2 * time.Minute)
	wants("a change of what runs has not completed for 2m0s")
	inner()
	wants("a reload has not completed for 3m1s")
	end()
	wants("")
}

// The loop calls what follows from a task; a loop that has ended holds no task up.
func TestTasksHandBackWhatFollows(t *testing.T) {
	tasks := NewTasks()
	called := 0
	tasks.Do(func(context.Context) func() { return func() { called++ } })
	(<-tasks.Done())()
	if called != 1 {
		t.Errorf("called %d times", called)
	}
	tasks.Do(func(ctx context.Context) func() {
		<-ctx.Done()
		return func() { called++ }
	})
	tasks.End()
	if tasks.Context().Err() == nil || called != 1 {
		t.Errorf("called %d times, the tasks ended with %v", called, tasks.Context().Err())
	}
}
