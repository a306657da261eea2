package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// Pins MGR-81, MGR-82, MGR-83 and MGR-157.
func TestAcquiresAndRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, start := newServer(), time.Now()
		a := s.run(t, "a", defaults)
		synctest.Wait()
		term := a.leading(t)
		holder, seconds, transitions, acquired, renewed := deref(s.stored())
		if holder != "a" || seconds != 15 || transitions != 0 || !acquired.Time.Equal(start) || !renewed.Time.Equal(start) {
			t.Fatalf("record of a new lease: %+v", s.stored().Spec)
		}
		if d, ok := term.Deadline(); !ok || !d.Equal(start.Add(10*time.Second)) {
			t.Fatalf("the term ends at %v", d)
		}
		a.sent()
		pass(time.Minute)
		synctest.Wait()
		if got := a.sent(); got["update"] != 30 || len(got) != 1 {
			t.Fatalf("requests of a leader in a minute: %v, want 30 updates", got)
		}
		if a.leading(t) != term || term.ID != 1 {
			t.Fatal("the term changed")
		}
		_, _, transitions, acquired, renewed = deref(s.stored())
		if transitions != 0 || !acquired.Time.Equal(start) || !renewed.Time.Equal(start.Add(time.Minute)) {
			t.Fatalf("record of a renewed lease: %+v", s.stored().Spec)
		}
		a.events.expect(t, "a became leader")
		a.stop()
		if !errors.Is(term.Err(), ErrStopped) {
			t.Fatalf("the term ended with %v", term.Err())
		}
		if holderOf(s.stored()) != "a" {
			t.Fatal("the end of Run released the lease")
		}
		a.events.expect(t, "a stopped leading")
	})
}

// stepped is a clock of which the wall clock can be set forward. It goes on with the fake time of a test, which has no
// monotonic reading, from a time that has one.
type stepped struct {
	clock.RealClock
	t           *testing.T
	base, begun time.Time
	by          atomic.Int64
}

func (s *stepped) Now() time.Time {
	return suspended(s.t, s.base.Add(time.Since(s.begun)), time.Duration(s.by.Load()))
}

// The wall clock is set between a renewal and its answer: the lease is still that of this process, and its next term
// begins at once. Pins MGR-195.
func TestAClockThatIsSetDuringARenewalBeginsAnotherTerm(t *testing.T) {
	base := time.Now()
	synctest.Test(t, func(t *testing.T) {
		s, c := newServer(), &stepped{t: t, base: base, begun: time.Now()}
		a := s.runWith(t, "a", defaults, func(o *Options) { o.Clock = c })
		synctest.Wait()
		first := a.leading(t)
		a.sent()
		a.Clientset.Lock() // the elector sends
		a.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			c.by.Store(int64(time.Hour))
			return false, nil, nil
		})
		a.Clientset.Unlock()
		pass(defaults.RetryPeriod)
		synctest.Wait()
		if again := a.leading(t); again.ID != 2 || !errors.Is(first.Err(), ErrNotRenewed) {
			t.Fatalf("term %d; the first one ended with %v", again.ID, first.Err())
		}
		if got := a.sent(); got["update"] != 2 || len(got) != 1 {
			t.Fatalf("requests: %v, want two updates", got)
		}
		pass(time.Minute)
		if again := a.leading(t); again.ID != 2 {
			t.Fatalf("term %d", again.ID)
		}
	})
}

// Pins MGR-81.
func TestStandbyTakesOverWhenTheLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		synctest.Wait()
		a.leading(t)
		b := s.run(t, "b", defaults)
		pass(10*time.Minute + time.Second)
		synctest.Wait()
		b.standingBy(t)
		if got := b.sent(); got["get"] != 1 || got["watch"] != 1 || len(got) != 2 {
			t.Fatalf("requests of a standby in ten minutes: %v, want one get and one watch", got)
		}
		if st := b.Status(); !st.Watching || st.Holder != "a" {
			t.Fatalf("status %+v", st)
		}
		a.stop() // like kill -9: the lease stays
		_, _, _, _, renewed := deref(s.stored())
		pass(time.Until(renewed.Add(15 * time.Second)))
		b.standingBy(t)
		pass(maxJitter)
		synctest.Wait()
		b.leading(t)
		if holder, _, transitions, acquired, _ := deref(s.stored()); holder != "b" || transitions != 1 || acquired.Time.Before(renewed.Time) {
			t.Fatalf("record after the takeover: %+v", s.stored().Spec)
		}
		if got := b.sent(); got["update"] != 1 || len(got) != 1 {
			t.Fatalf("requests of the takeover: %v, want one update", got)
		}
	})
}

// Pins MGR-164.
func TestLostLeaseEndsTheTermInTimeAndIsRegained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, start := newServer(), time.Now()
		a := s.run(t, "a", defaults)
		pass(9 * time.Second) // renewed at 2, 4, 6, 8
		s.do(func() { a.down = true })
		term := a.leading(t)
		<-term.Done()
		if ended := time.Since(start); ended != 18*time.Second {
			t.Fatalf("the term ended after %v, want 18s: renew deadline after the last renewal", ended)
		}
		if !errors.Is(term.Err(), ErrNotRenewed) {
			t.Fatalf("the term ended with %v", term.Err())
		}
		pass(10 * time.Minute)
		a.standingBy(t)
		if err := a.Check(nil); err != nil {
			t.Fatalf("a standby is unhealthy: %v", err)
		}
		if st := a.Status(); st.LastError == "" || st.Leading {
			t.Fatalf("status %+v", st)
		}
		s.do(func() { a.down = false })
		pass(defaults.RetryPeriod + maxJitter)
		synctest.Wait()
		if again := a.leading(t); again.ID != 2 || again == term || term.Valid() {
			t.Fatal("the old term came back")
		}
		if st := a.Status(); st.LastError != "" || st.Term != 2 {
			t.Fatalf("status %+v", st)
		}
		a.events.expect(t, "a became leader", "a stopped leading", "a became leader")
		want := "[leading 1 standby leading 2]"
		var got []string
		a.mu.Lock()
		for _, st := range a.states {
			if st.Term != nil {
				got = append(got, fmt.Sprint("leading ", st.Term.ID))
			} else {
				got = append(got, "standby")
			}
		}
		a.mu.Unlock()
		if fmt.Sprint(got) != want {
			t.Fatalf("states %v, want %v", got, want)
		}
	})
}

// What failed is shown until something succeeds, also in a process that has nothing to write. Pins MGR-226.
func TestAStandbyThatHasReadTheLeaseHasNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.run(t, "a", defaults)
		synctest.Wait()
		b := s.run(t, "b", defaults)
		pass(time.Second)
		s.do(func() { b.down = true })
		s.endWatches(b.candidate)
		pass(time.Minute)
		if st := b.Status(); st.LastError == "" {
			t.Fatalf("no error although the API server cannot be reached: %+v", st)
		}
		s.do(func() { b.down = false })
		pass(2 * defaults.RetryPeriod)
		synctest.Wait()
		b.standingBy(t)
		if st := b.Status(); st.LastError != "" || st.Holder != "a" {
			t.Errorf("status %+v", st)
		}
	})
}

// A process that may read the lease, and not write it, shows that between two attempts too. Pins MGR-226.
func TestAnErrorIsShownUntilTheNextAttemptSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.latency = 100 * time.Millisecond
		a := s.run(t, "a", defaults)
		a.Clientset.Lock()
		a.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("forbidden")
		})
		a.Clientset.Unlock()
		pass(time.Second)
		for range 100 {
			pass(50 * time.Millisecond)
			synctest.Wait()
			if st := a.Status(); st.LastError == "" {
				t.Fatalf("status %+v", st)
			}
		}
	})
}

// A holder that is stuck writes nothing after its deadline, and is unhealthy 20s after the end of its lease. Pins
// MGR-86.
func TestTermEndsInTimeWhileTheElectorIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		synctest.Wait()
		term := a.leading(t)
		hang := make(chan struct{})
		s.do(func() { a.hang = hang })
		pass(10*time.Second - 1)
		if !term.Valid() {
			t.Fatal("the term ended early")
		}
		pass(1)
		synctest.Wait()
		select {
		case <-term.Done():
		default:
			t.Fatal("the term outlives its deadline")
		}
		pass(25*time.Second - 1)
		if err := a.Check(nil); err != nil {
			t.Fatalf("unhealthy early: %v", err)
		}
		pass(2)
		if err := a.Check(nil); err == nil || err.Error() != "failed election to renew leadership on lease kube-controller-manager" {
			t.Fatalf("health of a stuck elector: %v", err)
		}
		s.do(func() { a.hang = nil })
		close(hang)
		synctest.Wait()
		// The late answer is worth nothing, the next one makes a new term.
		pass(defaults.RetryPeriod)
		synctest.Wait()
		if a.leading(t).ID != 2 || a.Check(nil) != nil {
			t.Fatalf("not recovered: %+v", a.Status())
		}
	})
}

// Pins MGR-82.
func TestConflictTakesTheSlowPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		pass(time.Second)
		term := a.leading(t)
		s.edit(func(l *coordinationv1.Lease) { l.Labels = map[string]string{"edited": "true"} })
		a.sent()
		pass(defaults.RetryPeriod)
		synctest.Wait()
		if got := a.sent(); got["update"] != 2 || got["get"] != 1 || len(got) != 2 {
			t.Fatalf("requests %v, want update, get, update", got)
		}
		if a.leading(t) != term || a.metrics.slowPaths() != 1 || s.stored().Labels["edited"] != "true" {
			t.Fatalf("slow paths %d, lease %+v", a.metrics.slowPaths(), s.stored())
		}
		pass(time.Minute)
		if a.metrics.slowPaths() != 1 {
			t.Fatal("fast renewals count as slow")
		}
	})
}

func TestLostAnswersDoNotEndTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		pass(time.Second)
		term := a.leading(t)
		s.do(func() { a.deaf = true })
		pass(4 * time.Second)
		s.do(func() { a.deaf = false })
		pass(30 * time.Second)
		if a.leading(t) != term {
			t.Fatal("the term changed")
		}
	})
}

func TestLeaseTakenByForceEndsTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		pass(time.Second)
		term := a.leading(t)
		s.edit(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "thief" })
		pass(defaults.RetryPeriod)
		synctest.Wait()
		a.standingBy(t)
		if !errors.Is(term.Err(), ErrTaken) || a.State().Holder != "thief" {
			t.Fatalf("the term ended with %v, holder %q", term.Err(), a.State().Holder)
		}
		pass(15*time.Second + maxJitter)
		synctest.Wait()
		a.leading(t)
	})
}

func TestDeletedLeaseIsCreatedAgainByItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		synctest.Wait()
		b := s.run(t, "b", defaults)
		pass(time.Second)
		term := a.leading(t)
		s.remove()
		pass(defaults.RetryPeriod)
		synctest.Wait()
		b.standingBy(t)
		if a.leading(t) != term || holderOf(s.stored()) != "a" {
			t.Fatal("the holder did not create the lease again")
		}
		a.stop()
		s.remove()
		synctest.Wait()
		b.standingBy(t) // the holder might not know
		pass(15*time.Second + maxJitter)
		synctest.Wait()
		b.leading(t)
	})
}

// Pins MGR-182.
func TestWithoutWatchTheStandbyPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		synctest.Wait()
		b := s.run(t, "b", defaults)
		pass(time.Second)
		s.do(func() { b.noWatch = true })
		s.endWatches(b.candidate)
		pass(time.Minute)
		b.sent()
		pass(time.Minute)
		if got := b.sent(); got["get"] < 25 || got["get"] > 31 || got["watch"] > 31 || got["update"] > 0 {
			t.Fatalf("requests without watch in a minute: %v, want about 30 gets", got)
		}
		if err := a.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		pass(defaults.RetryPeriod)
		synctest.Wait()
		b.leading(t)
	})
}

// A process that starts fills its caches as soon as it knows whether it leads, or that it cannot know.
func TestTheFirstDecisionIsTold(t *testing.T) {
	for _, tc := range []struct {
		name     string
		leads    string
		down     bool
		answered bool
		led      bool
	}{
		{name: "the lease is free", answered: true, led: true},
		{name: "another process holds it", leads: "other", answered: true},
		{name: "requests fail", down: true, answered: true},
		{name: "the first request is under way"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				if tc.leads != "" {
					s.run(t, tc.leads, defaults)
					synctest.Wait()
				}
				s.do(func() { s.latency = time.Millisecond })
				var mu sync.Mutex
				var told []State
				b := s.runWith(t, "b", defaults, func(o *Options) {
					o.OnChange = func(state State) {
						mu.Lock()
						defer mu.Unlock()
						told = append(told, state)
					}
				})
				s.do(func() { b.down = tc.down })
				synctest.Wait()
				if b.State().Decided {
					t.Error("decided before there was an answer")
				}
				if tc.answered {
					pass(10 * time.Millisecond)
					synctest.Wait()
				}
				if got := b.State(); got.Decided != tc.answered || (got.Term != nil) != tc.led {
					t.Errorf("state %+v", got)
				}
				mu.Lock()
				if got := len(told) > 0 && told[0].Decided; got != tc.answered || len(told) > 1 {
					t.Errorf("told %+v", told)
				}
				mu.Unlock()
			})
		})
	}
}

// Answers take longer than the retry period: a renewal is due when the one before has been answered, and nothing has
// failed. That the lease was won is told at once. Pins MGR-229.
func TestASlowServerDelaysNeitherTheNewsNorTheRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		const latency = 2500 * time.Millisecond
		s.latency = latency
		a := s.run(t, "a", defaults)
		pass(2*latency + time.Millisecond) // it has been read and created
		synctest.Wait()
		term := a.leading(t)
		if told := a.seen(); len(told) != 1 || told[0].Term != term {
			t.Errorf("told %+v", told)
		}
		for range 100 {
			pass(time.Second)
			synctest.Wait()
			if st := a.Status(); st.LastError != "" || st.Term != term.ID {
				t.Fatalf("status %+v", st)
			}
		}
	})
}

// Pins MGR-182.
func TestWatchIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		synctest.Wait()
		b := s.run(t, "b", defaults)
		for range 5 {
			pass(5 * time.Minute)
			s.endWatches(b.candidate)
		}
		synctest.Wait()
		if got := b.sent(); got["get"] != 6 || got["watch"] != 6 || len(got) != 2 {
			t.Fatalf("requests %v, want a get and a watch each time", got)
		}
		if err := a.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.leading(t)
	})
}

func TestTimingsChangeLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		pass(time.Second)
		term := a.leading(t)
		a.SetTimings(Timings{LeaseDuration: 60 * time.Second, RenewDeadline: 40 * time.Second, RetryPeriod: 5 * time.Second})
		synctest.Wait()
		if _, seconds, _, _, renewed := deref(s.stored()); seconds != 60 || !renewed.Time.Equal(time.Now()) {
			t.Fatalf("others do not know the longer lease: %+v", s.stored().Spec)
		}
		if d, _ := term.Deadline(); time.Until(d) != 40*time.Second {
			t.Fatalf("the term ends in %v, want 40s", time.Until(d))
		}
		a.sent()
		pass(time.Minute)
		synctest.Wait()
		if got := a.sent(); got["update"] != 12 {
			t.Fatalf("requests in a minute: %v, want 12 updates", got)
		}

		s.do(func() { a.down = true })
		a.SetTimings(Timings{LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: time.Second})
		if d, _ := term.Deadline(); time.Until(d) != 4*time.Second {
			t.Fatalf("a shorter deadline is not in force: the term ends in %v", time.Until(d))
		}
		s.do(func() { a.down = false })
		pass(3 * time.Second)
		if a.leading(t) != term {
			t.Fatal("the term changed")
		}
		if _, seconds, _, _, _ := deref(s.stored()); seconds != 6 {
			t.Fatalf("recorded duration %d", seconds)
		}

		// What others do not know of does not count.
		s.do(func() { a.down = true })
		a.SetTimings(Timings{LeaseDuration: 60 * time.Second, RenewDeadline: 40 * time.Second, RetryPeriod: 5 * time.Second})
		pass(5 * time.Second)
		if term.Valid() {
			t.Fatal("a term outlives the lease that others know of")
		}
	})
}

// A write that etcd was too slow for is answered with 500 and Retry-After, although it may be stored. client-go then
// sends it again, which conflicts with the first time. Pins MGR-218.
func TestALeaseIsHeldIfItsWriteConflictsWithItself(t *testing.T) {
	held := func(by string) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &by, LeaseDurationSeconds: ptr.To[int32](15),
			AcquireTime: &metav1.MicroTime{Time: time.Now()}, RenewTime: &metav1.MicroTime{Time: time.Now()},
		}}
	}
	for name, lease := range map[string]*coordinationv1.Lease{
		"there was none":     nil,
		"it was released":    held(""),
		"its holder is dead": held("dead"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.repeats = true
				if lease != nil {
					s.store(lease, watch.Added)
				}
				a := s.run(t, "a", defaults)
				pass(16 * time.Second)
				s.do(func() { s.repeats = false })
				pass(defaults.RetryPeriod + maxJitter)
				synctest.Wait()
				a.leading(t)
			})
		})
	}
}

// An attempt that has failed is repeated after the retry period in force. Pins MGR-222.
func TestAShorterRetryPeriodAppliesToAFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", Timings{LeaseDuration: time.Hour, RenewDeadline: 55 * time.Minute, RetryPeriod: 40 * time.Minute})
		pass(time.Second)
		term := a.leading(t)
		s.do(func() { a.down = true })
		pass(40 * time.Minute)
		synctest.Wait()
		s.do(func() { a.down = false })
		a.SetTimings(Timings{LeaseDuration: time.Hour, RenewDeadline: 55 * time.Minute, RetryPeriod: 2 * time.Second})
		pass(3 * time.Second)
		synctest.Wait()
		if _, _, _, _, renewed := deref(s.stored()); time.Since(renewed.Time) > 2*time.Second || a.leading(t) != term {
			t.Errorf("renewed %v ago", time.Since(renewed.Time))
		}
	})
}
