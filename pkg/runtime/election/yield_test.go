package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestYieldPassesTheLeaseOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		synctest.Wait()
		b := s.run(t, "b", defaults)
		pass(time.Minute + time.Second)
		term, yielded := a.leading(t), time.Now()
		a.sent()
		if err := a.Yield(t.Context(), a.State().Term, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(term.Err(), ErrReleased) {
			t.Fatalf("the term ended with %v", term.Err())
		}
		synctest.Wait()
		if got := a.sent(); got["update"] != 1 || got["watch"] != 1 || len(got) != 2 {
			t.Fatalf("requests of a yield: %v, want one update, and the watch of a standby", got)
		}
		b.leading(t)
		a.standingBy(t)
		if time.Since(yielded) != 0 {
			t.Fatalf("taken after %v", time.Since(yielded))
		}
		pass(time.Minute)
		synctest.Wait()
		if a.standingBy(t); a.State().Holder != "b" {
			t.Fatalf("a stands by for %q", a.State().Holder)
		}
		if err := b.Yield(t.Context(), b.State().Term, 5*time.Second); err != nil { // and back
			t.Fatal(err)
		}
		synctest.Wait()
		a.leading(t)
	})
}

func TestYieldedLeaseThatNobodyWantsIsTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		synctest.Wait()
		a.leading(t)
		if err := a.Yield(t.Context(), a.State().Term, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		pass(5*time.Second - 1)
		synctest.Wait()
		a.standingBy(t)
		if holderOf(s.stored()) != "" {
			t.Fatal("the lease was not given back")
		}
		pass(1)
		synctest.Wait()
		if a.leading(t).ID != 2 {
			t.Fatalf("term %d", a.leading(t).ID)
		}
		pass(time.Minute)
		a.leading(t) // the backoff is used up
	})
}

func TestYieldThatFailsHoldsOffAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		synctest.Wait()
		b := s.run(t, "b", defaults)
		pass(time.Second)
		term := a.leading(t)
		s.do(func() { a.down = true })
		if err := a.Yield(t.Context(), a.State().Term, 40*time.Second); !errors.Is(err, errDown) {
			t.Fatalf("got %v", err)
		}
		if term.Valid() {
			t.Fatal("the term goes on")
		}
		s.do(func() { a.down = false })
		pass(14 * time.Second)
		synctest.Wait()
		a.standingBy(t)
		b.standingBy(t)
		pass(time.Second + maxJitter)
		synctest.Wait()
		b.leading(t)
	})
}

// TestDelayLetsLessLoadedCandidatesGoFirst: both wait for the same lease.
func TestDelayLetsLessLoadedCandidatesGoFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		release bool
		within  time.Duration
	}{
		"released": {true, time.Second},
		"expired":  {false, 16*time.Second + maxJitter},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				delayed := func(d time.Duration) func(*Options) {
					return func(o *Options) { o.Delay = func() time.Duration { return d } }
				}
				a := s.run(t, "a", defaults)
				synctest.Wait()
				busy := s.runWith(t, "busy", defaults, delayed(3*time.Second))
				idle := s.runWith(t, "idle", defaults, delayed(time.Second))
				pass(time.Minute)
				if tc.release {
					if err := a.Release(t.Context()); err != nil {
						t.Fatal(err)
					}
				} else {
					a.stop()
				}
				pass(time.Second / 2)
				synctest.Wait()
				busy.standingBy(t)
				idle.standingBy(t)
				pass(tc.within - time.Second/2)
				synctest.Wait()
				idle.leading(t)
				busy.standingBy(t)
				idle.stop() // without it, the busy one takes over
				pass(18*time.Second + maxJitter)
				synctest.Wait()
				busy.leading(t)
			})
		})
	}
}

func TestDelayCountsFromWhenTheLeaseIsFreeAndIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, start := newServer(), time.Now()
		asked := 0
		a := s.runWith(t, "a", defaults, func(o *Options) {
			o.Delay = func() time.Duration {
				if asked++; asked == 1 {
					return 2 * time.Second
				}
				return 3 * time.Second // more load meanwhile
			}
		})
		pass(3*time.Second - 1)
		synctest.Wait()
		a.standingBy(t)
		pass(1)
		synctest.Wait()
		a.leading(t)
		if time.Since(start) != 3*time.Second || asked < 2 {
			t.Fatalf("taken after %v, asked %d times", time.Since(start), asked)
		}
		was := asked
		pass(time.Minute)
		if err := a.Yield(t.Context(), a.State().Term, time.Second); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		synctest.Wait()
		a.leading(t)
		if asked != was {
			t.Fatal("asked for a lease that it was the last to hold")
		}
	})
}

// A term ends, and another one begins before the lease is given back: the lease is kept.
func TestYieldOfAnEarlierTermKeepsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		synctest.Wait()
		earlier := a.leading(t)
		if err := a.Yield(t.Context(), earlier, 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		term := a.leading(t)
		for _, of := range []*Term{earlier, nil} {
			if err := a.Yield(t.Context(), of, time.Second); !errors.Is(err, errOtherTerm) {
				t.Fatalf("got %v", err)
			}
		}
		a.Elector.mu.Lock()
		holdOff := a.view.holdOff
		a.Elector.mu.Unlock()
		if now := time.Now(); now.Before(holdOff) {
			t.Fatalf("it would not take the lease before %v", holdOff.Sub(now))
		}
		pass(time.Minute)
		synctest.Wait()
		if !term.Valid() || holderOf(s.stored()) != "a" {
			t.Fatalf("the term ended with %v, and %q holds the lease", term.Err(), holderOf(s.stored()))
		}
	})
}

// TestYieldDoesNotWaitForAStuckRequest: the Term ends at once, and the answer that comes
// late does not begin another one.
func TestYieldDoesNotWaitForAStuckRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		pass(time.Second)
		term := a.leading(t)
		a.hangFor(20 * time.Second)
		pass(2 * time.Second) // the renewal hangs
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := a.Yield(ctx, a.State().Term, 40*time.Second); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Fatalf("got %v after %v", err, time.Since(start))
		}
		if !errors.Is(term.Err(), ErrReleased) {
			t.Fatalf("the term ended with %v", term.Err())
		}
		pass(38 * time.Second)
		synctest.Wait()
		a.standingBy(t)
		pass(2 * time.Second)
		synctest.Wait()
		if a.leading(t).ID != 2 {
			t.Fatal("a lease that nobody else wanted was not taken again")
		}
	})
}
