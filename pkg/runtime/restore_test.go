package runtime

import (
	"testing"
	"time"
)

// API servers that contradict each other do not have caches filled all the time. Pins MGR-207.
func TestThePauseBetweenReplacements(t *testing.T) {
	now := time.Unix(1e9, 0)
	for name, test := range map[string]struct {
		last time.Time
		want time.Duration
	}{
		"the first":      {time.Time{}, 0},
		"at once":        {now, time.Minute},
		"after a while":  {now.Add(-45 * time.Second), 15 * time.Second},
		"after a minute": {now.Add(-time.Minute), 0},
		"much later":     {now.Add(-time.Hour), 0},
	} {
		if got := (&restores{last: test.last}).wait(now); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
