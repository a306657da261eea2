package election

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// twins have the same identity.
func twins(o *Options) { o.Identity = "twin" }

// TestTwinsDoNotLeadBoth: a record that names this process, but was written by another one,
// is the record of another one.
func TestTwinsDoNotLeadBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.runWith(t, "a", defaults, twins)
		synctest.Wait()
		term := a.leading(t)
		b := s.runWith(t, "b", defaults, twins)
		for range 60 {
			pass(time.Second)
			synctest.Wait()
			b.standingBy(t)
		}
		if a.leading(t) != term {
			t.Fatal("the term changed")
		}
		b.sent()
		pass(time.Minute)
		if sent := b.sent(); len(sent) != 0 {
			t.Errorf("requests of a standby in a minute: %v, want none", sent)
		}
		a.stop() // dead
		pass(15*time.Second + maxJitter)
		synctest.Wait()
		b.leading(t)
	})
}

// TestATermEndsWhenATwinHasWritten: the twin took the lease while this process was cut off,
// or by force.
func TestATermEndsWhenATwinHasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		pass(time.Second)
		term := a.leading(t)
		s.edit(func(l *coordinationv1.Lease) { l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()} })
		pass(defaults.RetryPeriod)
		synctest.Wait()
		a.standingBy(t)
		if !errors.Is(term.Err(), ErrForeignRecord) {
			t.Fatalf("the term ended with %v", term.Err())
		}
		if err := a.Yield(t.Context(), nil, 0); err != nil || holderOf(s.stored()) != "a" {
			t.Fatalf("giving back what another holds: %v, lease %+v", err, s.stored().Spec)
		}
		pass(15*time.Second + maxJitter)
		synctest.Wait()
		if got := a.leading(t); got.ID != 2 || *s.stored().Spec.LeaseTransitions != 1 {
			t.Fatalf("term %d, lease %+v", got.ID, s.stored().Spec)
		}
	})
}

// TestWhatDoesNotMakeARecordForeign: writes of others that leave the times alone, and
// writes of this process of which no answer came.
func TestWhatDoesNotMakeARecordForeign(t *testing.T) {
	for name, happens := range map[string]func(*server, *process){
		"another duration": func(s *server, _ *process) {
			s.edit(func(l *coordinationv1.Lease) { *l.Spec.LeaseDurationSeconds = 20 })
		},
		"a request": func(s *server, _ *process) {
			s.edit(func(l *coordinationv1.Lease) { l.Annotations = map[string]string{"requested-by": "b"} })
		},
		"lost answers": func(s *server, a *process) {
			s.do(func() { a.deaf = true })
			pass(5 * time.Second)
			s.do(func() { a.deaf = false })
		},
		"answers to repeated writes": func(s *server, _ *process) {
			s.do(func() { s.repeats = true })
			pass(5 * time.Second)
			s.do(func() { s.repeats = false })
		},
		"times as they are sent": func(s *server, _ *process) {
			s.edit(func(l *coordinationv1.Lease) {
				l.Spec.RenewTime.Time = l.Spec.RenewTime.Truncate(time.Microsecond).In(time.FixedZone("elsewhere", 3600))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				a := s.run(t, "a", defaults)
				pass(time.Second + 123*time.Nanosecond)
				term := a.leading(t)
				happens(s, a)
				pass(time.Minute)
				if a.leading(t) != term {
					t.Error("the term changed")
				}
			})
		})
	}
}

// TestTheLeaseOutlivesATermThatIsEnded: it stays with this process.
func TestTheLeaseOutlivesATermThatIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		synctest.Wait()
		b := s.run(t, "b", defaults)
		pass(time.Second)
		term, transitions := a.leading(t), *s.stored().Spec.LeaseTransitions
		a.sent()
		term.End(errDown)
		if !errors.Is(term.Err(), errDown) {
			t.Fatalf("the term ended with %v", term.Err())
		}
		synctest.Wait()
		if next := a.leading(t); next.ID != 2 || *s.stored().Spec.LeaseTransitions != transitions {
			t.Fatalf("term %d, lease %+v", next.ID, s.stored().Spec)
		}
		if sent := a.sent(); sent["update"] != 1 || len(sent) != 1 {
			t.Errorf("requests: %v, want one update", sent)
		}
		b.standingBy(t)
	})
}
