package election

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/klog/v2"
)

// ErrRestored means that resource versions have gone back, which only a restore of etcd does: writes of this process,
// and of others that it has seen, are lost.
var ErrRestored = errors.New("resource versions have gone back, as after a restore of etcd")

// Caution is how long an Elector is careful after a restore of etcd. The zero value is none.
type Caution struct {
	// HoldOff is until when the lease is not taken: the record of another holder may be lost while its Term goes on,
	// and it is given the time of its lease to notice.
	HoldOff time.Time
	// Unwatched is until when watches of the lease are not trusted. One that is open may wait for versions that are
	// lost, or report them if its API server has not been restarted.
	Unwatched time.Time
}

// compare finds out whether versions have gone back: the lease has an older one than before, or was taken at an older
// one meanwhile, see TakenAnnotation. The lease is that in the response to a request of this process,
// which API servers read from etcd, or write there. What a watch reports is not compared: it may come from a cache
// that is behind.
func (e *Elector) compare(ctx context.Context, lease *coordinationv1.Lease) {
	if e.lease == nil || !older(lease, e.lease) && !contradicts(e.lease, lease) {
		return
	}
	klog.FromContext(ctx).Error(ErrRestored, "Resource versions have gone back, no longer leading",
		"lease", klog.KRef(e.opts.Namespace, e.opts.Name), "from", e.lease.ResourceVersion, "to", lease.ResourceVersion,
		"knownTaken", takenOf(e.lease), "taken", takenOf(lease))
	e.mu.Lock()
	e.beCareful(durationOf(lease))
	e.mu.Unlock()
	if e.opts.OnRecede != nil {
		e.opts.OnRecede()
	}
	e.loseTerm(ctx, ErrRestored)
}

// Recede ends the election permanently, and the Term at once: what this process knows, of the lease and otherwise, is
// of another history than what is stored. The lease is not given back; Release does that if the stored record is of
// this process. Another Elector can go on with the Caution of this one. Recede does not wait, and can be called by
// OnRecede.
func (e *Elector) Recede() {
	e.mu.Lock()
	e.beCareful(0)
	e.receded, e.released = true, true
	e.mu.Unlock()
	e.signal()
}

// Receded reports whether Recede was called.
func (e *Elector) Receded() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.receded
}

// Caution returns how long another Elector has to be careful.
func (e *Elector) Caution() Caution {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Caution{HoldOff: e.view.holdOff, Unwatched: e.unwatchedUntil}
}

// beCareful ends the Term, and prepares for versions that have gone back. Unless this process led until now, another
// one may lead. stored is the duration of the lease that is stored now. The caller holds mu.
func (e *Elector) beCareful(stored time.Duration) {
	now, lasts := e.opts.Clock.Now(), max(durationOf(e.lease), e.timings.LeaseDuration)
	led := e.term != nil && (e.term.Valid() || errors.Is(e.term.Err(), ErrRestored))
	if e.term != nil {
		e.term.End(ErrRestored)
	}
	if end := now.Add(lasts); !led && end.After(e.view.holdOff) {
		e.view.holdOff = end
	}
	e.view.watched = false
	// As long as it takes to see by reads that a holder is dead.
	if end := now.Add(2 * max(lasts, stored)); end.After(e.unwatchedUntil) {
		e.unwatchedUntil = end
	}
	e.lastErr, e.lastErrAt = ErrRestored, now
}
