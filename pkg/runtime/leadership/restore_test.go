package leadership

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/takeover"
	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// numbered is a connection with another number.
type numbered struct {
	electing
	generation uint64
}

func (n numbered) Generation() uint64 { return n.generation }

// grouped is a configuration with two locks.
func grouped() *v1beta1.KubeControllerManagerConfiguration {
	cfg := v1beta1.NewDefault()
	cfg.LeaderElection.Groups = []v1beta1.LeaseGroup{{Name: "batch", Controllers: []string{"job-controller"}}}
	return cfg
}

// One lease shows that etcd was restored, and nothing that this process has read or written is true any more,
// whatever lease it needs. Pins MGR-206.
func TestARestoreEndsAllTermsOfAConnection(t *testing.T) {
	cfg := grouped()
	l, conn := contending(t, cfg)
	enabled := func(string) []string { return nil }
	var terms []*election.Term
	for _, k := range l.Locks() {
		terms = append(terms, k.valid())
	}
	l.recede(1)
	for n, term := range terms {
		if !errors.Is(term.Err(), election.ErrRestored) {
			t.Errorf("term %d ended with %v", n, term.Err())
		}
	}
	select {
	case <-l.Receded():
	default:
		t.Error("the loop is not told")
	}
	if !l.Outdated(1) || l.Outdated(2) {
		t.Errorf("outdated: 1 %t, 2 %t", l.Outdated(1), l.Outdated(2))
	}
	l.TakeTerms(t.Context())
	for name, right := range Rights(l.Locks()) {
		if right.Term != 0 || !strings.HasPrefix(right.Refuses("job-controller"), "etcd was restored") {
			t.Errorf("%s permits %+v", name, right)
		}
	}

	moved := cfg.DeepCopy() // an edit comes in between
	moved.LeaderElection.Groups[0].ResourceName = "moved"
	next := must.Get(l.Prepare(conn, moved, enabled))(t)
	l.Adopt(t.Context(), next, moved, enabled)
	for _, k := range next {
		if k.begun && !k.elector.Receded() {
			t.Errorf("%s begins on an outdated connection", k.Name)
		}
	}
	anew := must.Get(l.Prepare(numbered{conn, 2}, moved, enabled))(t)
	l.Adopt(t.Context(), anew, moved, enabled)
	settleUntil(t, l, "all leases are held", func() bool {
		for _, k := range anew {
			if k.valid() == nil {
				return false
			}
		}
		return true
	})
	for _, k := range anew {
		must.Succeed(t, k.resign(t.Context()))
	}
}

// settleUntil works in place of the loop.
func settleUntil(t *testing.T, l *Leadership, what string, done func() bool) {
	t.Helper()
	await.True(t, what, func() bool {
		select {
		case then := <-l.options.Tasks.Done():
			then()
		default:
			l.Settle(t.Context())
		}
		return done()
	})
}

// The locks of another connection go on. Pins MGR-206.
func TestARestoreElsewhereEndsNothing(t *testing.T) {
	l, conn := contending(t, v1beta1.NewDefault())
	enabled := func(string) []string { return nil }
	cfg := v1beta1.NewDefault()
	next := must.Get(l.Prepare(numbered{conn, 2}, cfg, enabled))(t)
	l.Adopt(t.Context(), next, cfg, enabled)
	settleUntil(t, l, "the lease is held on the next connection", func() bool { return next[0].valid() != nil })
	l.recede(1)
	if err := next[0].valid().Err(); err != nil || l.Outdated(2) {
		t.Errorf("it ended with %v", err)
	}
	l.recede(2)
	l.recede(1)
	if !l.Outdated(2) {
		t.Error("what an earlier connection shows makes the later one current")
	}
	must.Succeed(t, next[0].resign(t.Context()))
}

// Versions of another history say nothing about what a successor has to see. Pins MGR-206.
func TestNothingIsLeftAfterARestore(t *testing.T) {
	l, conn := contending(t, v1beta1.NewDefault())
	conn.ledger.Inherit(takeover.NothingWritten(), time.Time{})
	conn.ledger.Stored(podsOf(), "5", time.Now())
	l.recede(1)
	k := l.Locks()[0]
	must.Succeed(t, k.resign(t.Context()))
	leases := conn.client.CoordinationV1().Leases(k.key.lease.Namespace)
	lease := must.Get(leases.Get(t.Context(), k.key.lease.Name, metav1.GetOptions{}))(t)
	left, holder := lease.Annotations[takeover.Annotation], ptr.Deref(lease.Spec.HolderIdentity, "")
	if left != "0 *=?" || holder != "" {
		t.Errorf("left %q, holder %q", left, holder)
	}
}

// The next elector of a lease is as careful as the ones before, also with an edit in between. Pins MGR-207.
func TestCautionIsPassedOn(t *testing.T) {
	l, conn := contending(t, grouped())
	before := l.Locks()[0]
	enabled := func(string) []string { return nil }
	made := func(generation uint64, cfg *v1beta1.KubeControllerManagerConfiguration) *Lock {
		t.Helper()
		next := must.Get(l.Prepare(numbered{conn, generation}, cfg, enabled))(t)
		defer l.Discard(next)
		for _, k := range next {
			if k.Name == locks.Main {
				return k
			}
		}
		t.Fatal("there is no main lock")
		return nil
	}
	if c := made(2, grouped()).elector.Caution(); c != (election.Caution{}) {
		t.Errorf("without a restore: %v", c)
	}
	l.recede(1)
	want := before.elector.Caution()
	if wait := want.Unwatched.Sub(clock.RealClock{}.Now()); wait < 20*time.Second || !want.HoldOff.IsZero() {
		t.Errorf("who held the lease has %v", want)
	}
	if c := made(2, grouped()).elector.Caution(); c != want {
		t.Errorf("got %v, want %v", c, want)
	}
	other := grouped()
	other.LeaderElection.ResourceName = "other"
	if c := made(2, other).elector.Caution(); c != (election.Caution{}) {
		t.Errorf("another lease: %v", c)
	}
	renamed := grouped()
	renamed.LeaderElection.Identity = "renamed"
	next := must.Get(l.Prepare(conn, renamed, enabled))(t)
	l.Adopt(t.Context(), next, renamed, enabled)
	settleUntil(t, l, "the locks before are given back", func() bool { return len(l.retiring) == 0 })
	if c := made(2, renamed).elector.Caution(); c.Unwatched.Before(want.Unwatched) {
		t.Errorf("after an edit: %v, want %v", c, want)
	}
}
