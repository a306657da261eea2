package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// pair are a leader and a standby of a server whose requests take a moment, and the lease
// as it was at the beginning of a long minute.
func pair(t *testing.T) (s *server, a, b *process, snapshot *coordinationv1.Lease) {
	t.Helper()
	s = newServer()
	s.latency = time.Millisecond
	a = s.run(t, "a", defaults)
	pass(time.Second)
	b = s.run(t, "b", defaults)
	pass(10 * time.Second)
	snapshot = s.stored()
	pass(time.Minute)
	s.endWatches(b.candidate)
	pass(100 * time.Millisecond) // the next one begins with what is newest
	a.leading(t)
	b.standingBy(t)
	a.sent()
	b.sent()
	return s, a, b, snapshot
}

// settled waits until exactly one of two leads, and fails if that takes longer than limit or
// more requests than a candidate sends in that time when all is well.
func settled(t *testing.T, a, b *process, limit time.Duration) (leader, standby *process) {
	t.Helper()
	for range limit / time.Second {
		pass(time.Second)
		inA, inB := a.State().Term, b.State().Term
		if inA != nil && inB != nil {
			t.Fatalf("both lead: %+v %+v", a.Status(), b.Status())
		}
		for _, p := range []*process{a, b} {
			if n := total(p.sent()); n > 10 {
				t.Fatalf("%s sent %d requests in a second", p.name, n)
			}
		}
		switch {
		case inA != nil:
			leader, standby = a, b
		case inB != nil:
			leader, standby = b, a
		}
	}
	if leader == nil {
		t.Fatalf("nobody leads: %+v %+v", a.Status(), b.Status())
	}
	return leader, standby
}

// TestLeadsAgainAfterVersionsHaveGoneBack: the answer to a request of one's own is true,
// whatever its version.
func TestLeadsAgainAfterVersionsHaveGoneBack(t *testing.T) {
	for name, watches := range map[string]bool{"and watches end": true, "and watches are silent": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, a, b, snapshot := pair(t)
				term := a.leading(t)
				s.restore(snapshot)
				if watches {
					s.endWatches(a.candidate)
					s.endWatches(b.candidate)
				}
				leader, standby := settled(t, a, b, 45*time.Second)
				if term.Valid() {
					t.Error("a term survives the loss of its renewals")
				}
				// The watch that the standby trusts tells of versions that come now.
				pass(2 * time.Minute)
				if st := standby.Status(); !st.Watching || st.Holder != leader.name {
					t.Fatalf("the standby: %+v", st)
				}
				standby.sent()
				pass(time.Minute)
				if sent := standby.sent(); len(sent) != 0 {
					t.Errorf("requests of a standby in a minute: %v, want none", sent)
				}
				if err := leader.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				pass(100 * time.Millisecond)
				standby.leading(t)
			})
		})
	}
}

// TestReleaseAfterVersionsHaveGoneBack: what is stored names this process, but says nothing
// about who has taken the lease since, so it is left to expire.
func TestReleaseAfterVersionsHaveGoneBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, b, snapshot := pair(t)
		s.restore(snapshot)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := a.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if sent := total(a.sent()); sent > 3 {
			t.Errorf("%d requests of a release", sent)
		}
		pass(31 * time.Second)
		b.leading(t)
	})
}

// TestALeaseThatIsFreeAgainIsLeftToItsLastHolder: a restore may undo that the lease was taken.
// The term of whoever took it goes on until that notices.
func TestALeaseThatIsFreeAgainIsLeftToItsLastHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, b, snapshot := pair(t)
		snapshot.Spec.HolderIdentity = ptr.To("")
		term := a.leading(t)
		s.do(func() { a.down = true })
		s.restore(snapshot)
		s.endWatches(b.candidate)
		for term.Valid() {
			pass(100 * time.Millisecond)
			b.standingBy(t)
		}
		if !errors.Is(term.Err(), ErrNotRenewed) {
			t.Fatalf("the term ended with %v", term.Err())
		}
		pass(defaults.LeaseDuration)
		b.leading(t)
	})
}

// TestAWatchOfAnotherHistoryDoesNotKeepALeaseAlive: an API server that went on while its
// etcd was restored tells every watch of versions that are stored no more.
func TestAWatchOfAnotherHistoryDoesNotKeepALeaseAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, b, snapshot := pair(t)
		lost := s.stored()
		a.stop() // dead
		s.restore(snapshot)
		s.do(func() { b.replays = lost })
		s.endWatches(b.candidate)
		pass(3*defaults.LeaseDuration + time.Second)
		b.leading(t)
		if n := total(b.sent()); n > 60 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestAnEventOfEarlierChangesNothing: what a watch still has to tell is older than an answer.
func TestAnEventOfEarlierChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, b, snapshot := pair(t)
		for name, e := range map[string]sighting{"a change": {lease: snapshot}, "a deletion": {lease: snapshot, gone: true}} {
			before := b.Status()
			w := &watcher{elector: b.Elector}
			b.turn <- struct{}{}
			w.handle(t.Context(), e)
			<-b.turn
			if after := b.Status(); after != before || b.State().Holder != "a" {
				t.Errorf("%s: status %+v, was %+v", name, after, before)
			}
		}
		s.remove()
		synctest.Wait()
		if b.State().Holder != "" {
			t.Error("a deletion is not seen")
		}
	})
}

// TestRequestsWithoutAWaitAreBounded: whatever makes the policy ask for one request after the other.
func TestRequestsWithoutAWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.latency = time.Millisecond
		a := s.runWith(t, "a", defaults, func(*Options) {})
		pass(time.Second)
		a.turn <- struct{}{}
		a.policy = func(view, time.Time, string, Timings) action { return action{verb: read} }
		<-a.turn
		a.sent()
		pass(time.Minute)
		if n := total(a.sent()); n > 30*(maxRequests+1) {
			t.Errorf("%d requests in a minute", n)
		}
	})
}
