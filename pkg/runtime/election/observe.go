package election

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"kcmd.dev/pkg/controller"
)

// answered records the lease in the response to a request of this process. It is current,
// whatever its version: if that is older than one seen before, or the lease contradicts what
// was seen, versions have gone back.
func (e *Elector) answered(ctx context.Context, lease *coordinationv1.Lease) {
	e.compare(ctx, lease)
	e.see(ctx, lease)
}

// told records a watch event of the lease, unless it is older than what is known: responses
// can be ahead of a watch. If the lease was gone, it was made again after versions went back, or
// the watch is behind: a read tells, also if the event contradicts what was seen.
func (e *Elector) told(ctx context.Context, lease *coordinationv1.Lease, deleted bool) {
	switch {
	case e.lease != nil && older(lease, e.lease):
		if !e.view.exists {
			e.forget()
		}
	case deleted:
		e.seeNone()
	case e.lease != nil && contradicts(e.lease, lease):
		e.forget()
	default:
		e.see(ctx, lease)
	}
}

// see records the lease as the API server has it.
func (e *Elector) see(ctx context.Context, lease *coordinationv1.Lease) {
	now, holder := e.opts.Clock.Now(), holderOf(lease)
	e.mu.Lock()
	if holder != holderOf(e.lease) {
		e.view.retryAt = time.Time{}
	}
	if !e.view.exists || e.lease == nil || !equality.Semantic.DeepEqual(e.lease.Spec, lease.Spec) {
		e.view.changedAt = now
		e.view.jitter = e.opts.Jitter(maxJitter)
	}
	e.setFree(now, holder == "")
	e.lease = lease
	e.view.known, e.view.exists, e.view.seenAt = true, true, now
	e.mu.Unlock()
	e.mayHold = e.own(lease)
	if holder != "" {
		e.lastHolder = holder
	}
	switch {
	case holder != e.opts.Identity:
		e.written.only() // what is still in flight meets another version
		e.loseTerm(ctx, ErrTaken)
	case e.foreign(lease):
		e.lastHolder = "" // somebody else of that name
		e.loseTerm(ctx, ErrForeignRecord)
	default:
		e.written.confirm(lease.Spec)
	}
}

// own reports whether a record makes this process the holder: it has written the record, or
// the API server has chosen it.
func (e *Elector) own(lease *coordinationv1.Lease) bool {
	return holderOf(lease) == e.opts.Identity && (e.opts.Coordinated != nil || !e.foreign(lease))
}

// foreign reports whether a record names this process and was written by somebody else. The
// API server writes such a record when it prefers another candidate: that is not foreign.
func (e *Elector) foreign(lease *coordinationv1.Lease) bool {
	return holderOf(lease) == e.opts.Identity && !e.written.has(lease.Spec) &&
		(e.opts.Coordinated == nil || preferredOf(lease) == "")
}

// seeNone records that there is no lease.
func (e *Elector) seeNone() {
	e.mayHold = false
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.opts.Clock.Now()
	e.setFree(now, holderOf(e.lease) == "")
	e.view.known, e.view.exists, e.view.seenAt = true, false, now
}

// setFree records whether the lease has a holder. The caller holds mu.
func (e *Elector) setFree(now time.Time, free bool) {
	switch {
	case !free:
		e.view.freeAt = time.Time{}
	case e.view.freeAt.IsZero():
		e.view.freeAt = now
	}
}

// older reports whether a was stored before b.
func older(a, b *coordinationv1.Lease) bool {
	return controller.IsOlder(a.ResourceVersion, b.ResourceVersion)
}
