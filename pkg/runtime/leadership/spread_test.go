package leadership

import (
	"fmt"
	"testing"
	"time"

	"kcmd.dev/pkg/config/locks"
)

func held(self string, holders ...string) distribution {
	c := distribution{self: self}
	for n, h := range holders {
		name := locks.Main
		if n > 0 {
			name = locks.Group(fmt.Sprint(n))
		}
		c.leases = append(c.leases, holding{lock: name, holder: h})
	}
	return c
}

func TestWish(t *testing.T) {
	for _, c := range []struct {
		holders []string // of main and the groups 1, 2, …
		want    string
	}{
		{[]string{"b"}, ""},
		{[]string{"b", "b"}, "group/1"},
		{[]string{"b", "a"}, ""},
		{[]string{"a", "b"}, ""},
		{[]string{"b", "b", "a"}, ""},
		{[]string{"b", "b", "b", "a"}, "group/1"},
		{[]string{"b", "c", "b", "c", "c"}, "group/1"}, // of the one with most
		{[]string{"a", "b", "b", "b"}, "group/1"},
		{[]string{"", "", ""}, ""},
	} {
		if got := held("a", c.holders...).wish(); got != c.want {
			t.Errorf("%q: got %q, want %q", c.holders, got, c.want)
		}
	}
	asked := held("a", "b", "b", "b")
	asked.leases[1].asked = true
	if got := asked.wish(); got != "group/2" {
		t.Errorf("got %q, want the group nobody has asked for", got)
	}
}

// Whatever the start, hand-overs end, with no two processes two leases apart, unless what
// is too much cannot move; and none goes back to where it was.
func TestHandOversEnd(t *testing.T) {
	processes := []string{"a", "b", "c"}
	const leases = 6
	starts := 1
	for range leases {
		starts *= len(processes)
	}
	for start := range starts {
		holders := make([]string, leases)
		for n, rest := 0, start; n < leases; n++ {
			holders[n], rest = processes[rest%len(processes)], rest/len(processes)
		}
		moved := 0
		for again := true; again; {
			again = false
			for _, p := range processes {
				wish := held(p, holders...).wish()
				for n := range holders {
					if wish == "" || held(p, holders...).leases[n].lock != wish {
						continue
					}
					if !held(holders[n], holders...).grants(p) {
						t.Fatalf("%v: %s does not get its wish %s", holders, p, wish)
					}
					holders[n], again = p, true
					moved++
				}
			}
			if moved > leases {
				t.Fatalf("hand-overs do not end: %v", holders)
			}
		}
		for _, p := range processes {
			for _, q := range processes {
				if c := held(p, holders...); c.count(p) >= c.count(q)+unfair {
					t.Fatalf("%s holds %d and %s %d: %v", p, c.count(p), q, c.count(q), holders)
				}
			}
		}
	}
}

func TestDelayGrowsWithWhatIsHeld(t *testing.T) {
	l, k := &Leadership{}, &Lock{}
	l.step.Store(int64(time.Second))
	for held, want := range map[int64]time.Duration{0: 0, 1: time.Second, 3: 3 * time.Second, 9: maxSteps * time.Second} {
		l.held.Store(held)
		if got := l.delay(k); got != want {
			t.Errorf("with %d leases: %v, want %v", held, got, want)
		}
	}
	k.requested.Store(true)
	if got := l.delay(k); got != 0 {
		t.Errorf("a lease that was asked for is left for %v", got)
	}
	k.requested.Store(false)
	l.step.Store(0) // Sticky
	if got := l.delay(k); got != 0 {
		t.Errorf("without balance a lease is left for %v", got)
	}
}
