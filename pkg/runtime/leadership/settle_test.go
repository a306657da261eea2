package leadership

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/test/await"
	"kcmd.dev/test/fakeclient"
)

// passing is a clock that goes on with every reading.
type passing struct{ *clocktesting.FakeClock }

func (p passing) Now() time.Time {
	p.Step(2 * time.Nanosecond)
	return p.FakeClock.Now()
}

// requested returns an elector that has led with a lease that another process asked for, and the term.
func requested(t *testing.T) (*election.Elector, *election.Term) {
	t.Helper()
	elector, err := election.New(election.Options{
		Leases: fakeclient.New().CoordinationV1(), Namespace: groupLease.Namespace, Name: groupLease.Name, Identity: "me",
		Timings:     election.Timings{LeaseDuration: time.Hour, RenewDeadline: time.Minute, RetryPeriod: time.Second},
		Annotations: map[string]string{requestedBy: "other"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { elector.Run(ctx) })
	defer running.Wait() // it writes nothing any more, so that the request stays
	defer cancel()
	await.That(t, "it leads", func(context.Context) error {
		if elector.State().Term == nil {
			return errors.New("it does not")
		}
		return nil
	})
	return elector, elector.State().Term
}

// The entry of the namespace is what others find a lease by, and may be deleted while the lease is held. Pins MGR-191.
func TestTheEntryOfANamespaceIsLookedForWhileALeaseIsHeld(t *testing.T) {
	for namespace, announced := range map[string]bool{"n": true, metav1.NamespaceSystem: false} {
		t.Run(namespace, func(t *testing.T) {
			clk, all, client := clocktesting.NewFakeClock(start()), tasks(t), fakeclient.New()
			l := New(Options{Tasks: all, Runner: &runner{}, Clock: clk})
			l.election = v1beta1.LeaderElection{Spread: v1beta1.SpreadSticky}
			k := lockOf(claims.Lease{Namespace: namespace, Name: "main"})
			k.reader = &claims.Reader{Leases: client.CoordinationV1(), Main: k.key.lease}
			k.always = election.Always()
			l.locks = []*Lock{k}
			l.TakeTerms(t.Context())
			for range 2 { // it is gone once more
				l.Settle(t.Context())
				if due := l.Due() != nil; due != announced || k.announceAt.IsZero() == announced {
					t.Fatalf("the loop settles again: %t, want %t", due, announced)
				}
				if !announced {
					return
				}
				clk.Step(announceEvery)
				if l.Settle(t.Context()); !k.announceAt.IsZero() {
					t.Fatal("the entry is not looked for")
				}
				(<-all.Done())()
				leases := client.CoordinationV1().Leases(metav1.NamespaceSystem)
				if err := leases.Delete(t.Context(), namespace+".leases.config.kcmd.dev", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			k.always.End(election.ErrReleased)
			k.always = nil
			l.TakeTerms(t.Context())
			if l.Settle(t.Context()); l.Due() != nil {
				t.Error("a lease that is not held is announced")
			}
		})
	}
}

// An edit that is rejected has looked at the terms too, and the loop may settle before it tells controllers of the end of
// theirs: their claims stay, and the lease is not passed on. Pins MGR-174.
func TestAControllerHasNotStoppedBeforeItIsToldThatItsTermIsOver(t *testing.T) {
	l := New(Options{Tasks: tasks(t), Runner: &runner{}, Clock: clocktesting.NewFakeClock(start())})
	l.election = v1beta1.LeaderElection{Spread: v1beta1.SpreadSticky}
	k := lockOf(mainLease, "a")
	k.always = election.Always()
	l.locks = []*Lock{k}
	l.TakeTerms(t.Context())
	l.Started(map[string]uint64{"a": k.number})
	k.always.End(election.ErrTaken)
	k.always = nil
	l.TakeTerms(t.Context())
	if l.Settle(t.Context()); !slices.Equal(k.admission.Active(), []string{"a"}) || l.Due() == nil {
		t.Errorf("%q are still there, want one; it is looked for again: %t", k.admission.Active(), l.Due() != nil)
	}
	l.Started(nil) // it was told
	if l.Settle(t.Context()); len(k.admission.Active()) > 0 {
		t.Errorf("%q are still there", k.admission.Active())
	}
}

// Whatever the moment at which something becomes due while the loop settles: it is done, or the alarm is set for it.
// Pins MGR-174.
func TestNothingIsMissedThatBecomesDueWhileTheLoopSettles(t *testing.T) {
	elector, term := requested(t)
	hour := &metav1.Duration{Duration: time.Hour}
	balanced := v1beta1.LeaderElection{Spread: v1beta1.SpreadBalanced, LeaseDuration: hour}
	for name, c := range map[string]struct {
		due  func(*Leadership, *Lock, time.Time)
		done func(*Lock) bool
	}{
		"a blocked controller is asked for": {
			due: func(l *Leadership, k *Lock, at time.Time) {
				l.election.Spread = v1beta1.SpreadSticky
				k.admission.Want([]string{"a"})
				k.askAt = at
			},
			done: func(k *Lock) bool { return k.asking },
		},
		"an entry is looked for": {
			due: func(l *Leadership, k *Lock, at time.Time) {
				l.election.Spread = v1beta1.SpreadSticky
				k.reader = &claims.Reader{Leases: fakeclient.New().CoordinationV1(), Main: k.key.lease}
				k.announceAt = at
			},
			done: func(k *Lock) bool { return k.announceAt.IsZero() },
		},
		"a lease is handed over": {
			due:  func(l *Leadership, _ *Lock, at time.Time) { l.nextHandOver = at },
			done: func(k *Lock) bool { return k.handingTo == "other" },
		},
		"a lease is requested": {
			due: func(l *Leadership, k *Lock, at time.Time) {
				k.clearing = true // nothing is handed over
				k.requested.Store(true)
				l.nextRequest = at
			},
			done: func(k *Lock) bool { return !k.requested.Load() }, // an earlier request is over
		},
	} {
		t.Run(name, func(t *testing.T) {
			for after := range 20 * time.Nanosecond {
				l := New(Options{Tasks: tasks(t), Runner: &runner{}, Clock: passing{clocktesting.NewFakeClock(start())}})
				l.election = balanced
				for _, group := range []string{"first", "second"} { // holding two, it hands one over
					k := lockOf(groupLease)
					k.Name, k.elector, k.term, k.begun = locks.Group(group), elector, term, true
					k.clearing, k.returning = group == "second", true
					l.locks = append(l.locks, k)
				}
				k := l.locks[0]
				c.due(l, k, start().Add(after))
				l.Settle(t.Context())
				if !c.done(k) && l.alarm == nil {
					t.Errorf("what becomes due %v after the beginning is missed", after)
				}
			}
		})
	}
}

// What waits for a time that follows from the timings waits no longer than the timings in force say. Pins MGR-222.
func TestShorterTimingsApplyToWhatWaits(t *testing.T) {
	clk := clocktesting.NewFakeClock(start())
	l := New(Options{Tasks: tasks(t), Runner: &runner{}, Clock: clk})
	k := lockOf(mainLease, "a")
	l.locks = []*Lock{k}
	long := v1beta1.NewDefault().LeaderElection
	long.LeaseDuration.Duration, long.RetryPeriod.Duration = time.Hour, 40*time.Minute
	l.election = long
	k.term = election.Always()
	l.answered(t.Context(), answer{lock: k, term: k.term, question: k.admission.Ask(), read: start(), err: errors.New("down")})
	l.nextRequest, l.nextHandOver = start().Add(time.Hour), start().Add(time.Hour)
	short := v1beta1.NewDefault().LeaderElection
	l.SetTimings(short)
	if got := k.askAt.Sub(start()); got != short.RetryPeriod.Duration {
		t.Errorf("other processes are asked for after %v", got)
	}
	for what, at := range map[string]time.Time{"request": l.nextRequest, "handover": l.nextHandOver} {
		if got := at.Sub(start()); got != short.LeaseDuration.Duration {
			t.Errorf("the next %s is after %v", what, got)
		}
	}
	l.SetTimings(long)
	if got := k.askAt.Sub(start()); got != short.RetryPeriod.Duration {
		t.Errorf("other processes are asked for after %v", got)
	}
}
