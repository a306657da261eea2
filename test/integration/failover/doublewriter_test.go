package failover

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// loss is a way to lose the lease.
type loss struct {
	name string
	// provoke makes the leader lose the lease; it returns what ends the disturbance.
	provoke func(t testing.TB, s setting, leader *replica) (undo func())
	// until says how far things go before the disturbance ends: another leads, or the
	// leader has given up.
	anotherLeads bool
}

func ways() []loss {
	return []loss{
		{name: "network cut", anotherLeads: true, provoke: func(_ testing.TB, _ setting, leader *replica) func() {
			leader.network.Lose() // a network that kept what was sent would have it executed later
			return leader.network.Heal
		}},
		{name: "stolen", provoke: func(t testing.TB, s setting, _ *replica) func() {
			steal(t, s.lease)
			return func() {}
		}},
		{name: "server paused", provoke: func(t testing.TB, _ setting, _ *replica) func() {
			must.Succeed(t, plane.PauseAPIServer())
			return func() { must.Succeed(t, plane.ResumeAPIServer()) }
		}},
	}
}

// steal takes a lease by force, for as short as possible.
func steal(t testing.TB, name string) {
	t.Helper()
	now := time.Now().UTC().Format(metav1.RFC3339Micro)
	patch := fmt.Appendf(nil, `{"spec":{"holderIdentity":%q,"leaseDurationSeconds":1,"acquireTime":%q,"renewTime":%q}}`, thief, now, now)
	_, err := asThief(t).CoordinationV1().Leases(leaseNamespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	must.Succeed(t, err)
}

// TestLeaseIsLostAgainAndAgainWithoutTwoWriters has two managers under load lose the lease
// in every way there is. What the API server has logged tells whether a write of one
// that arrived while the other held the lease succeeded. Of every change of a pod that was
// stored, resource versions tell whether its author held the lease at that moment.
func TestLeaseIsLostAgainAndAgainWithoutTwoWriters(t *testing.T) {
	count := losses(t)
	s := setting{lease: harness.LeaseOf(t), timings: short}
	mark, start := markAudit(t), time.Now()
	a, b := s.join(t, "a"), s.join(t, "b")
	leader(t, a, b)
	pods := churn(t, 10*time.Millisecond)

	all := ways()
	for n := range count {
		pods.grow(t)
		lose(t, s, all[n%len(all)], a, b)
	}
	leader(t, a, b)

	stored := pods.finish(t)
	l := readLedger(t, mark, s.lease, a, b)
	v := l.judge(a.name, b.name)
	t.Logf("%d losses in %v: %d versions of the lease, %d tenures, %d with writes, %d writes of controllers (%d answered after the lease was taken, %d arrived then and came to nothing), others %v",
		count, time.Since(start).Round(time.Second), len(l.versions), v.tenures, v.working, len(l.writes), v.overlapping, v.dropped, l.unfenced)
	t.Logf("%d changes of pods were stored", len(stored))
	t.Logf("terms: a %d, b %d; last write after a theft: %v", a.leadership(t).Term, b.leadership(t).Term, v.late)
	for _, w := range v.double {
		t.Errorf("a double writer: %s", w)
	}
	if v.late > short.RenewDeadline {
		t.Errorf("a manager wrote %v after its lease was stolen, want at most the renew deadline %v", v.late, short.RenewDeadline)
	}
	if terms := a.leadership(t).Term + b.leadership(t).Term; terms < uint64(count) {
		t.Errorf("%d terms after %d losses", terms, count)
	}
	if v.working < count/2 {
		t.Errorf("only %d tenures saw work in %d losses: the test does not test", v.working, count)
	}
	// The watch has shown changes whose requests are being answered, and logged after that.
	await.Within(t, 10*time.Second, "every stored change is explained by a write of the holder", func(context.Context) error {
		return errors.Join(readLedger(t, mark, s.lease, a, b).misplaced(stored)...)
	})
}

// TestNothingArrivesLateFromALossyNetwork has the leader's network lose packets until
// another leads. Its system would send requests again when the network works, but the
// connections they are in have been broken with the term.
func TestNothingArrivesLateFromALossyNetwork(t *testing.T) {
	const count = 6
	s := setting{lease: harness.LeaseOf(t), timings: short}
	mark := markAudit(t)
	a, b := s.join(t, "a"), s.join(t, "b")
	leader(t, a, b)
	pods := churn(t, 10*time.Millisecond)

	way := loss{name: "lossy network", anotherLeads: true, provoke: func(_ testing.TB, _ setting, leader *replica) func() {
		leader.network.Lose()
		return leader.network.Heal
	}}
	for range count {
		pods.grow(t)
		lose(t, s, way, a, b)
	}
	leader(t, a, b)

	v := readLedger(t, mark, s.lease, a, b).judge(a.name, b.name)
	t.Logf("%d losses: %d tenures, %d with writes, %d writes arrived late", count, v.tenures, v.working, v.dropped+len(v.double))
	if v.dropped > 0 || len(v.double) > 0 {
		t.Errorf("%d writes arrived late and came to nothing, others were carried out: %q", v.dropped, v.double)
	}
	if v.working < count/2 {
		t.Errorf("only %d tenures saw work in %d losses: the test does not test", v.working, count)
	}
}

// lose makes the leader lose the lease once and waits until that is over.
func lose(t testing.TB, s setting, way loss, replicas ...*replica) {
	t.Helper()
	holder := leader(t, replicas...)
	term := holder.leadership(t).Term
	undo := way.provoke(t, s, holder)
	defer undo()
	await.That(t, fmt.Sprintf("%s loses the lease (%s)", holder.name, way.name), func(context.Context) error {
		if now := holder.leadership(t); now.Leading && now.Term == term {
			return errors.New("it leads")
		}
		return nil
	})
	if !way.anotherLeads {
		return
	}
	var others []*replica
	for _, r := range replicas {
		if r != holder {
			others = append(others, r)
		}
	}
	leader(t, others...)
}
