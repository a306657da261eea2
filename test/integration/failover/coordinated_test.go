package failover

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/api/coordination/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// candidate is an elector that the API server may choose, with the rights of the manager.
type candidate struct {
	*election.Elector
	name string
	kill func() // as kill -9: nothing is given back
}

func stand(t testing.TB, lease, name, emulation string) *candidate {
	t.Helper()
	config, err := plane.Config(controlplane.ManagerUser)
	must.Succeed(t, err)
	client, err := kubernetes.NewForConfig(config)
	must.Succeed(t, err)
	e, err := election.New(election.Options{
		Leases: client.CoordinationV1(), Namespace: leaseNamespace, Name: lease, Identity: name,
		Timings:     election.Timings{LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond},
		Coordinated: &election.Coordination{Client: client, BinaryVersion: "1.36.3", EmulationVersion: emulation},
	})
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	c := &candidate{Elector: e, name: name, kill: func() { cancel(); <-done }}
	t.Cleanup(c.kill)
	return c
}

// led waits until a candidate leads, and returns its term.
func (c *candidate) led(t testing.TB) *election.Term {
	t.Helper()
	var term *election.Term
	await.That(t, c.name+" leads", func(context.Context) error {
		s := c.State()
		if s.Term == nil || !s.Term.Valid() {
			return fmt.Errorf("the holder is %q: %+v", s.Holder, c.Status())
		}
		term = s.Term
		return nil
	})
	return term
}

// TestAPIServerChoosesTheLeader covers coordinated leader election: the API server chooses
// the candidate with the oldest emulation version, another one when that dies, and takes
// the lease away for a better one, which gets it without two terms at once.
// Pins MGR-92 and MGR-93.
func TestAPIServerChoosesTheLeader(t *testing.T) {
	lease := harness.LeaseOf(t)
	young := stand(t, lease, lease+"_young", "1.36.0")
	term := young.led(t)
	l := storedLease(t, lease)
	if ptr.Deref(l.Spec.Strategy, "") != coordinationv1.OldestEmulationVersion || ptr.Deref(l.Spec.LeaseDurationSeconds, 0) != 3 {
		t.Errorf("the lease, as renewed: %+v", l.Spec)
	}
	c := storedCandidate(t, young.name)
	if c.Spec.LeaseName != lease || c.Spec.BinaryVersion != "1.36.3" || c.Spec.EmulationVersion != "1.36.0" || c.Spec.RenewTime == nil {
		t.Errorf("the candidate: %+v", c.Spec)
	}

	joined := time.Now()
	old := stand(t, lease, lease+"_old", "1.35.0")
	<-term.Done()
	if !errors.Is(term.Err(), election.ErrNotChosen) {
		t.Errorf("the term of the younger one ended with %v", term.Err())
	}
	ended := time.Now()
	if state := old.State(); state.Term != nil {
		t.Error("two terms at once")
	}
	must.Succeed(t, young.Yield(t.Context(), nil, 0)) // as soon as its controllers have stopped
	oldTerm := old.led(t)
	t.Logf("the API server preferred the older one %v after it stood, which led %v later", ended.Sub(joined).Round(time.Millisecond), time.Since(ended).Round(time.Millisecond))

	old.kill()
	killed := time.Now()
	if oldTerm.Valid() {
		t.Error("the term of a candidate that is gone goes on")
	}
	young.led(t)
	t.Logf("another one was chosen %v after the leader died, with a lease of 3s", time.Since(killed).Round(time.Millisecond))
	must.Succeed(t, young.Release(t.Context()))
	if l := storedLease(t, lease); ptr.Deref(l.Spec.HolderIdentity, "") == young.name {
		t.Errorf("the lease after the release: %+v", l.Spec)
	}
}

// TestManagersThatTheAPIServerChooses covers the feature gate: of two managers the API
// server chooses one, and the other when that one is cut off.
func TestManagersThatTheAPIServerChooses(t *testing.T) {
	s := setting{
		lease:   harness.LeaseOf(t),
		timings: election.Timings{LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond},
		edit:    func(c *manager.Config) { c.FeatureGates = map[string]bool{"CoordinatedLeaderElection": true} },
	}
	mark := markAudit(t)
	a, b := s.join(t, "chosen-a"), s.join(t, "chosen-b")
	churn(t, 20*time.Millisecond)
	first := leader(t, a, b)
	second := a
	if first == a {
		second = b
	}
	second.standsBy(t)
	if l := storedLease(t, s.lease); ptr.Deref(l.Spec.Strategy, "") != coordinationv1.OldestEmulationVersion {
		t.Errorf("the API server has not chosen: %+v", l.Spec)
	}
	cut := time.Now()
	first.network.Lose()
	second.leads(t)
	t.Logf("the other one worked %v after the first was cut off, with a lease of 3s", time.Since(cut).Round(time.Millisecond))
	first.network.Heal()
	await.That(t, "the successor writes", func(context.Context) error { return wrote(mark, second) })
	for _, w := range readLedger(t, mark, s.lease, a, b).judge(a.name, b.name).double {
		t.Errorf("a double writer: %s", w)
	}
}

// TestLeaseIsPassedOnToThePreferredManager covers what a manager does when the API server
// prefers another one: it stops its controllers and gives the lease back, instead of letting
// it expire.
// Pins MGR-184.
func TestLeaseIsPassedOnToThePreferredManager(t *testing.T) {
	const lease = 2 * time.Minute // longer than the test has patience
	young := setting{
		lease:   harness.LeaseOf(t),
		timings: election.Timings{LeaseDuration: lease, RenewDeadline: time.Minute, RetryPeriod: 200 * time.Millisecond},
		edit:    func(c *manager.Config) { c.FeatureGates = map[string]bool{"CoordinatedLeaderElection": true} },
	}
	old := young
	old.edit = func(c *manager.Config) {
		young.edit(c)
		c.EmulatedVersion = "1.35"
	}
	mark := markAudit(t)
	a := young.join(t, "preferred-young")
	churn(t, 20*time.Millisecond)
	a.leads(t)
	b := old.join(t, "preferred-old")
	joined := time.Now()
	b.leads(t)
	t.Logf("the preferred one leads %v after it joined, with a lease of %v", time.Since(joined).Round(time.Millisecond), lease)
	a.standsBy(t)
	await.That(t, "the successor writes", func(context.Context) error { return wrote(mark, b) })
	l := readLedger(t, mark, young.lease, a, b)
	for _, w := range l.judge(a.name, b.name).double {
		t.Errorf("a double writer: %s", w)
	}
}

func storedLease(t testing.TB, name string) *coordinationv1.Lease {
	t.Helper()
	l, err := plane.AdminClient().CoordinationV1().Leases(leaseNamespace).Get(t.Context(), name, metav1.GetOptions{})
	must.Succeed(t, err)
	return l
}

func storedCandidate(t testing.TB, name string) *v1beta1.LeaseCandidate {
	t.Helper()
	c, err := plane.AdminClient().CoordinationV1beta1().LeaseCandidates(leaseNamespace).Get(t.Context(), name, metav1.GetOptions{})
	must.Succeed(t, err)
	return c
}
