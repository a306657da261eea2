package leadership

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/takeover"
	"kcmd.dev/test/await"
	"kcmd.dev/test/fakeclient"
	"kcmd.dev/test/must"
)

// An unmodified kube-controller-manager holds the main lease, and the other component has given the migration lease back
// for a moment. Whoever watches that lease takes it first, and may run nothing under it: the others would wait for it for as
// long as the upgrade takes. Pins MGR-266.
func TestTheMigrationLeaseIsLeftToOthersWhileAStrangerHoldsTheMainOne(t *testing.T) {
	const migrated = "service-lb-controller"
	cfg := v1beta1.NewDefault()
	e := &cfg.LeaderElection
	e.LeaseDuration, e.RenewDeadline = &metav1.Duration{Duration: 2 * time.Second}, &metav1.Duration{Duration: time.Second}
	e.RetryPeriod = &metav1.Duration{Duration: 100 * time.Millisecond}
	cfg.LeaderMigration.Enabled = ptr.To(true)
	cfg.LeaderMigration.ControllerLeaders = []v1beta1.ControllerLeader{{Name: migrated, Component: "*"}}
	cfg.Controllers.ServiceLB.Enabled = ptr.To(true)
	now := metav1.NowMicro()
	stranger := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.ResourceNamespace, Name: e.ResourceName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("upstream"), LeaseDurationSeconds: ptr.To[int32](3600), AcquireTime: &now, RenewTime: &now,
		},
	}
	conn := electing{remembering{ledger: takeover.NewLedger(clock.RealClock{})}, fakeclient.New(stranger)}
	l := New(Options{Identity: must.Get(NewIdentity())(t), Runner: &runner{}, Tasks: tasks(t), Clock: clock.RealClock{}})
	enabled := func(lock string) []string {
		if lock == locks.Migration {
			return []string{migrated}
		}
		return nil
	}
	all := must.Get(l.Prepare(conn, cfg, enabled))(t)
	l.Adopt(t.Context(), all, cfg, enabled)
	t.Cleanup(func() {
		for _, k := range all {
			_ = k.resign(context.Background())
		}
	})
	migration := all[slices.IndexFunc(all, func(k *Lock) bool { return k.Name == locks.Migration })]
	leases := conn.client.CoordinationV1().Leases(e.ResourceNamespace)
	stored := func() *coordinationv1.Lease {
		lease, err := leases.Get(t.Context(), migration.key.lease.Name, metav1.GetOptions{})
		if err != nil {
			return &coordinationv1.Lease{}
		}
		return lease
	}
	settle := func(what string, done func() bool) {
		t.Helper()
		settleUntil(t, l, what, func() bool { l.TakeTerms(t.Context()); return done() })
	}
	settle("the lease is given back", func() bool { return stored().Spec.HolderIdentity != nil && *stored().Spec.HolderIdentity == "" })
	settle("the status says why", func() bool {
		return strings.Contains(migration.right().Refuses(migrated), "the lease is left to other components while")
	})

	main := must.Get(leases.Get(t.Context(), e.ResourceName, metav1.GetOptions{}))(t)
	main.Spec.HolderIdentity = ptr.To("")
	must.Get(leases.Update(t.Context(), main, metav1.UpdateOptions{}))(t)
	settle("it runs again what is migrated", func() bool { return migration.term != nil && migration.admission.Granted(migrated) })
}

// What a stranger ran until a moment ago is in no cache for certain, although the lease says that nobody has held it since.
// Pins MGR-203.
func TestWhatAStrangerRanHasABarrierOfItsOwnInTheNextTerm(t *testing.T) {
	for _, test := range []struct {
		name    string
		granted bool // in the term before
		cause   error
		own     bool
	}{
		{"the term ended for another reason", true, election.ErrNotRenewed, false},
		{"a stranger has ended it, and was gone before claims were read", true, errStranger, true},
		{"claims were never read in it", false, election.ErrNotRenewed, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := New(Options{Tasks: tasks(t), Clock: clock.RealClock{}})
			k := lockOf(groupLease, "a")
			k.want([]string{"a"})
			k.term = election.Always()
			if test.granted {
				k.admission.Answer(k.admission.Ask(), nil)
			}
			k.term.End(test.cause)
			l.takeTerm(t.Context(), k)
			l.prepareBarrier(k, &election.Term{
				Before:   &coordinationv1.Lease{},
				Acquired: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("me")}},
			})
			k.admission.Answer(k.admission.Ask(), nil)
			l.granted(k, nil)
			if own := k.barrierOf("a") != k.barrier; own != test.own {
				t.Errorf("it has a barrier of its own: %t, want %t", own, test.own)
			}
			l.endBarriers(k)
		})
	}
}

// A controller comes to a group with the file of a process that was started since. The holder of the group before had
// another file, and did not run it: what it has left says nothing about who did. Pins MGR-268.
func TestWhatThePredecessorDidNotRunHasABarrierOfItsOwn(t *testing.T) {
	const stays, comes = "job-controller", "ttl-controller"
	l, conn := contending(t, v1beta1.NewDefault())
	before := l.Locks()[0]
	before.want([]string{stays})
	before.term = before.valid()
	before.admission.Answer(before.admission.Ask(), nil)
	conn.ledger.Inherit(takeover.NothingWritten(), time.Time{})
	l.Retire()
	l.giveBack(t.Context())
	leases := conn.client.CoordinationV1().Leases(before.key.lease.Namespace)
	var left *coordinationv1.Lease
	await.True(t, "the lease is given back", func() bool {
		left = must.Get(leases.Get(t.Context(), before.key.lease.Name, metav1.GetOptions{}))(t)
		return ptr.Deref(left.Spec.HolderIdentity, "") == ""
	})
	acquired := left.DeepCopy()
	acquired.Spec.HolderIdentity, acquired.Spec.LeaseTransitions = ptr.To("next"), ptr.To[int32](1)

	for name, left := range map[string]*coordinationv1.Lease{"it says so": left, "it died": {Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("x")}}} {
		t.Run(name, func(t *testing.T) {
			next := New(Options{Tasks: tasks(t), Clock: clock.RealClock{}})
			k := lockOf(claims.Lease{Namespace: left.Namespace, Name: left.Name}, stays, comes)
			k.want([]string{stays, comes})
			next.prepareBarrier(k, &election.Term{Before: left, Acquired: acquired})
			k.admission.Answer(k.admission.Ask(), nil)
			next.granted(k, nil)
			if k.barrierOf(stays) != k.barrier {
				t.Error("what it ran does not wait for what it has left")
			}
			if own := k.barrierOf(comes) != k.barrier; own != (name == "it says so") {
				t.Errorf("what it did not run has a barrier of its own: %t", own)
			}
			next.endBarriers(k)
		})
	}
}
