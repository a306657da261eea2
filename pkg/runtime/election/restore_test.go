package election

import (
	"context"
	"errors"
	"sync/atomic"
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
				// The watch that the standby trusts reports versions that come now.
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

// obeying runs an elector whose owner has it recede when etcd was restored.
func (s *server) obeying(t *testing.T, name string, caution Caution) *process {
	t.Helper()
	var self atomic.Pointer[Elector]
	p := s.runWith(t, name, defaults, func(o *Options) {
		o.Caution = caution
		o.OnRecede = func() { self.Load().Recede() }
	})
	self.Store(p.Elector)
	return p
}

// restored are a leader and a standby whose lease is as it was a minute before, and their API server has restarted. The
// snapshot can be edited, or be that of a time before there was a lease.
func restored(t *testing.T, edit func(*coordinationv1.Lease), lease bool) (s *server, a, b *process, term *Term) {
	t.Helper()
	s = newServer()
	s.version = 100
	s.latency = time.Millisecond
	a = s.obeying(t, "a", Caution{})
	pass(time.Second)
	b = s.obeying(t, "b", Caution{})
	pass(10 * time.Second)
	snapshot := s.stored()
	if edit != nil {
		edit(snapshot)
	}
	pass(time.Minute)
	b.standingBy(t)
	term = a.leading(t)
	if lease {
		s.restore(snapshot)
	} else {
		s.do(func() { s.lease, s.version = nil, 50 })
	}
	s.endWatches(b.candidate)
	return s, a, b, term
}

// Whatever the lease says after a restore of etcd, nobody who knows what is lost holds it or takes it, and nothing is
// written. Pins MGR-206.
func TestAnElectionEndsWithARestoreOfEtcd(t *testing.T) {
	for name, edit := range map[string]func(*coordinationv1.Lease){
		"the record is an earlier one of the holder": nil,
		"the lease is free":                          func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") },
		"the standby held it":                        func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("b") },
		"a third one held it":                        func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("c") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, a, b, term := restored(t, edit, true)
				version := s.stored().ResourceVersion
				pass(defaults.RetryPeriod + 100*time.Millisecond)
				if !errors.Is(term.Err(), ErrRestored) {
					t.Errorf("the term ended with %v", term.Err())
				}
				for _, p := range []*process{a, b} {
					if !p.Receded() || p.Status().LastError != ErrRestored.Error() {
						t.Errorf("%s does not know: %+v", p.name, p.Status())
					}
					p.sent()
				}
				pass(5 * time.Minute)
				for _, p := range []*process{a, b} {
					p.standingBy(t)
					if sent := p.sent(); len(sent) > 0 {
						t.Errorf("requests of %s: %v", p.name, sent)
					}
				}
				if now := s.stored().ResourceVersion; now != version {
					t.Errorf("the lease was written: version %s, was %s", now, version)
				}
				for _, p := range []*process{a, b} {
					if err := p.Release(t.Context()); err != nil {
						t.Error(err)
					}
				}
				if now := s.stored().ResourceVersion; now != version {
					t.Errorf("a lease was given back that is not held: version %s, was %s", now, version)
				}
			})
		})
	}
}

// The lease is created if there was none yet: the answer shows what has happened. Pins MGR-206.
func TestALeaseThatIsLostWithARestoreEndsTheElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, b, term := restored(t, nil, false)
		pass(defaults.RetryPeriod + 100*time.Millisecond)
		if !errors.Is(term.Err(), ErrRestored) || !a.Receded() {
			t.Errorf("the term ended with %v: %+v", term.Err(), a.Status())
		}
		pass(defaults.LeaseDuration)
		b.standingBy(t)
		if !b.Receded() {
			t.Errorf("the standby does not know: %+v", b.Status())
		}
		if err := a.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if holder := holderOf(s.stored()); holder != "" {
			t.Errorf("what was made is held by %q", holder)
		}
	})
}

// A lease that is written at a later version is no sign, and neither is what a watch says that is behind. Pins MGR-206.
func TestWhatIsNoRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.latency = time.Millisecond
		a := s.obeying(t, "a", Caution{})
		pass(time.Second)
		b := s.obeying(t, "b", Caution{})
		pass(10 * time.Second)
		old := s.stored()
		pass(time.Minute)
		term := a.leading(t)
		forAWhile := func(fault func(on bool)) {
			s.do(func() { fault(true) })
			pass(3 * time.Second)
			s.do(func() { fault(false) })
		}
		for name, disturb := range map[string]func(){
			"the lease is deleted": s.remove,
			"others write it": func() {
				s.edit(func(l *coordinationv1.Lease) { l.Labels = map[string]string{"x": "y"} })
			},
			"a watch is behind":       func() { s.do(func() { b.replays = old }); s.endWatches(b.candidate) },
			"answers are lost":        func() { forAWhile(func(on bool) { a.deaf = on }) },
			"it cannot be reached":    func() { forAWhile(func(on bool) { a.down = on }) },
			"the API server restarts": func() { s.endWatches(a.candidate); s.endWatches(b.candidate) },
		} {
			disturb()
			pass(30 * time.Second)
			if !term.Valid() || a.Receded() || b.Receded() {
				t.Fatalf("%s: %v, %+v, %+v", name, term.Err(), a.Status(), b.Status())
			}
		}
	})
}

// Whoever did not lead leaves the lease to a holder whose record may be lost. Nobody trusts a watch that may be of an
// API server which has not been restarted. Pins MGR-207.
func TestTheNextElectorIsCareful(t *testing.T) {
	free := func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") }
	for name, waits := range map[string]time.Duration{"a": 0, "b": defaults.LeaseDuration} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, a, b, _ := restored(t, free, true)
				pass(defaults.RetryPeriod + 100*time.Millisecond)
				before := map[string]*process{"a": a, "b": b}[name]
				next := s.obeying(t, name, before.Caution())
				if waits > 0 {
					pass(waits - 3*time.Second)
					next.standingBy(t)
				}
				pass(4 * time.Second)
				next.leading(t)
				if sent := next.sent()["watch"]; sent != 0 {
					t.Errorf("%d watches", sent)
				}
			})
		})
	}
	t.Run("a lease that it has not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			stored := &coordinationv1.Lease{}
			stored.Namespace, stored.Name, stored.ResourceVersion = namespace, leaseName, "7"
			s.restore(stored)
			c := s.candidate("a")
			e, err := New(Options{
				Leases: c.leases(), Namespace: namespace, Name: leaseName, Identity: "a", Timings: defaults,
			})
			if err != nil {
				t.Fatal(err)
			}
			e.Recede() // another lease has shown it
			next := s.obeying(t, "a", e.Caution())
			pass(defaults.LeaseDuration - time.Second)
			next.standingBy(t)
			pass(2 * time.Second)
			next.leading(t)
		})
	})
}

// An elector that is told by the one of another lease ends its term at once, whatever it is doing. Pins MGR-206.
func TestAnElectorRecedesWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		pass(time.Second)
		term := a.leading(t)
		hang := make(chan struct{})
		s.do(func() { a.hang = hang })
		pass(defaults.RetryPeriod) // a renewal is under way
		a.Recede()
		if !errors.Is(term.Err(), ErrRestored) {
			t.Errorf("the term ended with %v", term.Err())
		}
		close(hang)
		pass(time.Minute)
		a.standingBy(t)
		if holder := holderOf(s.stored()); holder != "a" {
			t.Errorf("the holder is %q", holder)
		}
		if err := a.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if holder := holderOf(s.stored()); holder != "" {
			t.Errorf("the lease, of which nothing was lost, is still held by %q", holder)
		}
		if wait := time.Until(a.Caution().HoldOff); wait > 0 {
			t.Errorf("who led holds off for %v", wait)
		}
	})
}
