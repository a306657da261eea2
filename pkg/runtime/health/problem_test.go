package health

import (
	"testing"
	"time"

	"kcmd.dev/pkg/runtime/supervisor"
)

func TestWhatIsWrongWithAController(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ran := func(since, after time.Duration) supervisor.Status {
		started := now.Add(-since)
		return supervisor.Status{Name: "c", State: supervisor.Running, Started: started, LastError: "x", LastErrorTime: started.Add(-after)}
	}
	for _, test := range []struct {
		name   string
		status supervisor.Status
		want   string
	}{
		{"runs", supervisor.Status{State: supervisor.Running, Started: now}, ""},
		{"stands by", supervisor.Status{State: supervisor.Standby}, ""},
		{"waits for an API", supervisor.Status{State: supervisor.Waiting}, ""},
		{"backs off", supervisor.Status{State: supervisor.BackingOff, LastError: "x"}, "backing off after: x"},
		{"is stuck", supervisor.Status{State: supervisor.Running, Stuck: "a/b"}, "stuck on a/b"},
		// Between two crashes it runs for a moment, and is not healthy then.
		{"has just been restarted", ran(time.Second/2, time.Millisecond), "restarted after: x"},
		{"has been restarted after a pause", ran(3*time.Second, 4*time.Second), "restarted after: x"},
		{"has run longer than the pause", ran(5*time.Second, 4*time.Second), ""},
		{"has been restarted after the longest pause", ran(29*time.Second, 5*time.Minute), "restarted after: x"},
		{"has recovered after the longest pause", ran(30*time.Second, 5*time.Minute), ""},
		// A restart for another reason, long after a crash.
		{"was restarted by an edit", ran(time.Second, time.Hour), ""},
	} {
		if got := Problem(test.status, now); got != test.want {
			t.Errorf("a controller that %s: %q, want %q", test.name, got, test.want)
		}
	}
}
