package election

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// TestNeverTwoValidTerms puts candidates through random faults for hours of fake time, with
// identities of their own and with one that two of them share.
func TestNeverTwoValidTerms(t *testing.T) {
	for seed := range uint64(20) {
		identities := map[string]string{"a": "a", "b": "b", "c": "c"}
		if seed%2 == 1 {
			identities["b"] = "a"
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { surviveFaults(t, rand.New(rand.NewPCG(seed, 1)), identities) })
		})
	}
}

// hangFor makes requests hang, whatever their context says.
func (c *candidate) hangFor(d time.Duration) {
	c.server.do(func() {
		if c.hang != nil {
			return
		}
		hang := make(chan struct{})
		c.hang = hang
		time.AfterFunc(d, func() {
			c.server.do(func() { c.hang = nil })
			close(hang)
		})
	})
}

// ahead is a clock that is set a little forward.
type ahead struct {
	clock.RealClock
	by time.Duration
}

func (a ahead) Now() time.Time { return a.RealClock.Now().Add(a.by) }

func surviveFaults(t *testing.T, r *rand.Rand, identities map[string]string) {
	s := newServer()
	var all []*process
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, s.runWith(t, name, defaults, func(o *Options) {
			o.Identity = identities[name]
			// Requests take no time here: with equal clocks two would write the same times.
			o.Clock = ahead{by: map[string]time.Duration{"b": 7 * time.Microsecond}[name]}
			delay := map[string]time.Duration{"b": time.Millisecond, "c": 2 * time.Second}[name]
			o.Delay = func() time.Duration { return delay }
		}))
	}
	span := func(limit time.Duration) time.Duration { return time.Duration(r.Int64N(int64(limit))) }
	terms, led := map[*Term]bool{}, 0
	var yields sync.WaitGroup
	for turn := range 3000 {
		pass(span(2 * time.Second))
		backoff := span(5 * time.Second)
		p := all[r.IntN(len(all))]
		switch r.IntN(11) {
		case 0:
			s.do(func() { p.down = true })
		case 1:
			s.do(func() { p.deaf = true })
		case 2:
			s.do(func() { p.noWatch = true })
			s.endWatches(p.candidate)
		case 3:
			p.hangFor(span(30 * time.Second))
		case 4:
			p.SetTimings([]Timings{defaults, {5 * time.Second, 3 * time.Second, time.Second}, {40 * time.Second, 30 * time.Second, 3 * time.Second}}[r.IntN(3)])
		case 5:
			p.SetAnnotations(map[string]string{"turn": fmt.Sprint(turn)})
		case 6:
			yields.Go(func() { _ = p.Yield(context.Background(), p.State().Term, backoff) }) // may hang like any request
		case 7:
			s.do(func() { s.repeats = true })
		default:
			s.do(func() { s.repeats, p.down, p.deaf, p.noWatch = false, false, false, false })
		}
		synctest.Wait()
		valid := 0
		for _, p := range all {
			if term := p.State().Term; term != nil && term.Valid() {
				valid++
				terms[term] = true
			}
		}
		if valid > 1 {
			t.Fatalf("%d candidates lead at once: %+v %+v %+v", valid, all[0].Status(), all[1].Status(), all[2].Status())
		}
		led += valid
	}
	if led < 1000 || len(terms) < 5 {
		t.Fatalf("somebody led at %d of 3000 moments in %d terms: the test does not test", led, len(terms))
	}
	for _, p := range all { // let hanging requests end
		s.do(func() { p.down, p.deaf, p.noWatch = false, false, false })
	}
	pass(2 * time.Minute)
	yields.Wait()
}
