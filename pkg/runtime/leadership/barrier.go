package leadership

import (
	"errors"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/takeover"
)

// prepareBarrier prepares the barrier of the controllers that start in a term of a lock. While they are granted and
// built, the caches that they stood by with are compared.
func (l *Leadership) prepareBarrier(k *Lock, t *election.Term) {
	ledger := k.connection.Ledger()
	if t.Acquired == nil {
		// Without leader election any earlier process ended before this one began, and the
		// first reads of its caches are consistent. That is not so if the lock follows another one: until then this
		// process has written over another connection, or another process has held the lease.
		if !k.follows {
			ledger.Inherit(takeover.NothingWritten(), t.Began)
			return
		}
		now := l.options.Clock.Now()
		ledger.Inherit(takeover.NothingLeft(), now)
		k.barrier, k.barriers = l.newBarrier(k, takeover.NothingLeft(), now), map[string]*takeover.Barrier{}
		k.barrier.Begin(k.connection.CachesOf(k.Controllers))
		return
	}
	left := takeover.LeftOn(t.Before)
	if k.heldBefore(t) {
		left = ledger.Versions() // this process is its own predecessor
	} else {
		ledger.Inherit(left, t.Began)
		k.arrive(k.notRunBefore(t.Before, left)...)
	}
	k.held, k.acquired = transitions(t.Acquired), acquiredAt(t.Acquired)
	// Not now: other things may have been done since, such as filling caches.
	k.barrier, k.barriers = l.newBarrier(k, left, t.Began), map[string]*takeover.Barrier{}
	k.barrier.Begin(k.connection.CachesOf(k.Controllers))
}

// notRunBefore returns the controllers about which the predecessor has left nothing although it left something: it did not
// run them, perhaps by another configuration, and the process that did held another lease.
func (k *Lock) notRunBefore(before *coordinationv1.Lease, left takeover.Versions) []string {
	if left.Nothing() {
		return nil // the barrier of the term compares everything
	}
	ran := claims.Listed(before)
	return slices.DeleteFunc(slices.Clone(k.Controllers), func(c string) bool { return slices.Contains(ran, c) })
}

// heldBefore reports whether nobody held the lease between the last term and this one: the record is still of that
// time. An API server that chooses the holder does not count transitions, and leaves the time of acquisition to it.
func (k *Lock) heldBefore(t *election.Term) bool {
	return t.Before != nil && transitions(t.Before) == k.held && transitions(t.Acquired) == k.held &&
		!k.acquired.IsZero() && acquiredAt(t.Before).Equal(k.acquired)
}

// acquiredAt is when the lease was acquired by its holder, zero if it does not say so. It is as precise as API objects
// are.
func acquiredAt(l *coordinationv1.Lease) time.Time {
	if l.Spec.AcquireTime == nil {
		return time.Time{}
	}
	return l.Spec.AcquireTime.Truncate(time.Microsecond)
}

func transitions(l *coordinationv1.Lease) int { return int(ptr.Deref(l.Spec.LeaseTransitions, 0)) }

// endBarriers ends the barriers of a term. It does not wait for them.
func (l *Leadership) endBarriers(k *Lock) {
	for _, b := range k.allBarriers() {
		l.options.Tasks.Go(b.End)
	}
	k.barrier, k.barriers = nil, nil
}

func (k *Lock) allBarriers() []*takeover.Barrier {
	all := slices.Collect(maps.Values(k.barriers))
	if k.barrier != nil {
		all = append(all, k.barrier)
	}
	return all
}

func (l *Leadership) newBarrier(k *Lock, left takeover.Versions, began time.Time) *takeover.Barrier {
	return k.connection.NewBarrier(klog.NewContext(l.options.Tasks.Context(), klog.Background().WithValues("lock", k.Name)), left, began)
}

// controllersByLease returns the controllers by the leases of some locks; nil if there are
// none.
func controllersByLease(locks []*Lock) map[claims.Lease][]string {
	var all map[claims.Lease][]string
	for _, k := range locks {
		if all == nil {
			all = map[claims.Lease][]string{}
		}
		all[k.key.lease] = k.Controllers
	}
	return all
}

// arrived records controllers that a lock has now and that ran under another lease before the
// configuration changed: another process may have run them until a moment ago. A process that
// starts knows no lease before. One that was moved away and comes back before it has stopped was
// claimed all the time: it is still granted, and nobody else has run it.
func (k *Lock) arrived(before map[claims.Lease][]string, now []string) {
	for _, c := range now {
		if before != nil && !slices.Contains(before[k.key.lease], c) && !k.admission.Granted(c) {
			k.arrive(c)
		}
	}
}

// arrive records controllers that another process may have run until a moment ago.
func (k *Lock) arrive(controllers ...string) {
	for _, c := range controllers {
		if k.arrivals == nil {
			k.arrivals = map[string]bool{}
		}
		k.arrivals[c] = true
	}
}

// unsure returns the controllers of a term that another process may run: those that are not granted, and all if a stranger
// has ended the term.
func (k *Lock) unsure() []string {
	if errors.Is(k.term.Err(), errStranger) {
		return k.Controllers
	}
	return slices.DeleteFunc(slices.Clone(k.Controllers), k.admission.Granted)
}

// noteOthers records, before the lease is given back, which controllers this process runs under it, and whether another
// process may still run controllers of the lock: those that came from another lease, or that others were seen to run. What
// that writes before the successor runs them is not in the ledger of this process.
func (k *Lock) noteOthers() {
	ran := slices.DeleteFunc(slices.Clone(k.enabled), func(c string) bool { return !k.admission.Granted(c) })
	k.ran.Store(&ran)
	k.others.Store(len(k.admission.Blocked()) > 0 || slices.ContainsFunc(k.enabled, func(c string) bool { return k.arrivals[c] }))
}

// granted gives a barrier of their own to controllers that were granted after another
// process, which ran them under another lease, has given them up: what that wrote is not
// among what the predecessor under this lease has left. waited are those that others were
// seen to run when the question was last answered.
func (l *Leadership) granted(k *Lock, waited map[string]string) {
	var barrier *takeover.Barrier
	for _, c := range k.Controllers {
		_, blocked := waited[c]
		if !k.admission.Granted(c) || !blocked && !k.arrivals[c] {
			continue
		}
		delete(k.arrivals, c)
		l.endBarrierOf(k, c)
		if barrier == nil {
			now := l.options.Clock.Now()
			barrier = l.newBarrier(k, takeover.NothingLeft(), now)
			k.connection.Ledger().Inherit(takeover.NothingLeft(), now)
		}
		k.barriers[c] = barrier
	}
}

// endBarrierOf takes the barrier away that a controller was given earlier in the term, and ends it when no other
// controller waits for it. It knows nothing of what another process has written since.
func (l *Leadership) endBarrierOf(k *Lock, controller string) {
	old := k.barriers[controller]
	delete(k.barriers, controller)
	if old != nil && !slices.Contains(k.allBarriers(), old) {
		l.options.Tasks.Go(old.End)
	}
}

// barrierOf returns what a controller that starts under the lock waits for; nil for nothing.
func (k *Lock) barrierOf(controller string) *takeover.Barrier {
	if own := k.barriers[controller]; own != nil {
		return own
	}
	return k.barrier
}
