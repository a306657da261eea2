package failover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// event is what happens to a leader.
type event struct {
	name    string
	process bool // the leader is a process of its own
	happens func(t testing.TB, leader *replica) (began time.Time)
	// limit is how long after the event another has to write.
	limit func(election.Timings) time.Duration
}

// slack is what a takeover may take on a busy machine, beyond what it has to wait for.
const slack = time.Second

func events() []event {
	return []event{
		{
			name: "clean stop", process: true,
			happens: func(t testing.TB, leader *replica) time.Time {
				began := time.Now()
				must.Succeed(t, leader.Stop())
				return began
			},
			limit: func(election.Timings) time.Duration { return time.Second },
		},
		{
			name: "kill -9", process: true,
			happens: func(t testing.TB, leader *replica) time.Time {
				began := time.Now()
				must.Succeed(t, leader.process.Kill())
				return began
			},
			limit: func(s election.Timings) time.Duration { return s.LeaseDuration + slack },
		},
		{
			name: "network cut",
			happens: func(_ testing.TB, leader *replica) time.Time {
				leader.network.Cut()
				return time.Now()
			},
			limit: func(s election.Timings) time.Duration { return s.LeaseDuration + slack },
		},
	}
}

// TestFailoverTimes measures how long nobody writes: from the event to the first write of
// the successor, which has warm caches and work that waits.
func TestFailoverTimes(t *testing.T) {
	all := []election.Timings{short, {LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 500 * time.Millisecond}}
	if os.Getenv("KCMD_FAILOVER_DEFAULTS") != "" {
		all = append(all, election.Timings{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second})
	}
	table := []string{fmt.Sprintf("%-12s %-16s %14s %14s %14s", "event", "lease", "last write", "lease taken", "first write")}
	for n, timings := range all {
		for _, e := range events() {
			t.Run(fmt.Sprint(strings.Fields(e.name)[0], n), func(t *testing.T) {
				table = append(table, measure(t, e, timings))
			})
		}
	}
	t.Log("times after the event: the last write of the old leader, then of its successor\n" + strings.Join(table, "\n"))
}

// measure has an event happen to a leader, and returns a line of the table.
func measure(t *testing.T, e event, timings election.Timings) string {
	s := setting{lease: harness.LeaseOf(t), timings: timings}
	history := markAudit(t)
	var first *replica
	if e.process {
		first = s.joinProcess(t, "first")
	} else {
		first = s.join(t, "first")
	}
	first.leads(t)
	second := s.join(t, "second")
	second.standsBy(t)
	mark := markAudit(t)
	churn(t, 20*time.Millisecond)
	await.That(t, "the leader writes", func(context.Context) error { return wrote(mark, first) })

	began := e.happens(t, first)
	second.leads(t)
	await.That(t, "the successor writes", func(context.Context) error { return wrote(mark, second) })
	l := readLedger(t, history, s.lease, first, second)
	v := l.judge(first.name, second.name)
	for _, w := range v.double {
		t.Errorf("a double writer: %s", w)
	}
	last, next := l.around(first, second)
	taken := l.taken(second)
	if late := next.Sub(began); late > e.limit(timings) {
		t.Errorf("the first write came %v after the event, want at most %v", late, e.limit(timings))
	}
	ms := func(at time.Time) time.Duration { return at.Sub(began).Round(time.Millisecond) }
	return fmt.Sprintf("%-12s %-16s %14v %14v %14v", e.name,
		fmt.Sprintf("%v/%v/%v", timings.LeaseDuration, timings.RenewDeadline, timings.RetryPeriod), ms(last), ms(taken), ms(next))
}

// wrote is nil if a controller of a manager has written since a mark.
func wrote(mark controlplane.Mark, r *replica) error {
	events, err := plane.Audit().Written(mark, controlplane.Writes(), controlplane.BySourceIP(r.network.SourceIP()),
		func(e *auditv1.Event) bool { return !isUnfenced(e) })
	if err != nil {
		return err
	}
	if len(events) == 0 {
		return errors.New("it has not written")
	}
	return nil
}

// around returns the last write of one manager and the first write of its successor.
func (l ledger) around(old, successor *replica) (last, first time.Time) {
	for _, w := range l.writes {
		switch {
		case w.by == old.name:
			last = w.received
		case w.by == successor.name && first.IsZero():
			first = w.received
		}
	}
	return last, first
}

// taken is when a manager first held the lease.
func (l ledger) taken(r *replica) time.Time {
	for _, v := range l.versions {
		if v.holder == r.name {
			return v.received
		}
	}
	return time.Time{}
}

// TestTimingsChangeLive changes the timings of the leader while it works: it keeps its
// lease and its term, and from then on the new ones count.
func TestTimingsChangeLive(t *testing.T) {
	s := setting{lease: harness.LeaseOf(t), timings: election.Timings{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}}
	a := s.join(t, "a")
	a.leads(t)
	term, mark := a.leadership(t).Term, markAudit(t)
	for _, timings := range []election.Timings{short, {LeaseDuration: time.Hour, RenewDeadline: 50 * time.Minute, RetryPeriod: time.Minute}, short} {
		must.Succeed(t, a.Edit(t.Context(), func(c *manager.Config) { setTimings(c, timings) }))
		want := int32(timings.LeaseDuration / time.Second)
		await.That(t, fmt.Sprintf("the lease is one of %v", timings.LeaseDuration), func(context.Context) error {
			if got := *storedLease(t, s.lease).Spec.LeaseDurationSeconds; got != want {
				return fmt.Errorf("it is one of %ds", got)
			}
			return nil
		})
	}
	if now := a.leadership(t); !now.Leading || now.Term != term {
		t.Errorf("leadership %+v, want term %d", now, term)
	}
	l := readLedger(t, mark, s.lease, a)
	for _, v := range l.versions {
		if v.holder != a.name {
			t.Errorf("a change of the timings gave up the lease: %+v", v)
		}
	}

	b := s.join(t, "b") // it has the old timings, but goes by what the lease says
	b.standsBy(t)
	cut := time.Now()
	a.network.Cut()
	b.leads(t)
	if took := time.Since(cut); took > short.LeaseDuration+slack {
		t.Errorf("the lease was taken %v after the network was cut, with timings %v", took, short)
	}
}
