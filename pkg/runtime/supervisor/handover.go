package supervisor

import (
	"time"

	"k8s.io/klog/v2"
)

// handOverTime is how long what an instance handed over is kept for its successor. After
// that, caches show what was written, and a standby frees the memory. A lease may change
// holders twice within this time, so a successor must not conclude anything from it that
// another process could have undone. It does not begin again when an instance passes on what it was given.
const handOverTime = 5 * time.Minute

// handOver is what an instance handed over, for a successor that talks to the same API server:
// another one has other objects, and versions that cannot be compared.
type handOver struct {
	value   any
	clients uint64
	until   time.Time
	expiry  <-chan time.Time // frees the memory
}

// expired receives a value when the time is over. It is nil, which blocks forever, if there
// is nothing to expire.
func (h *handOver) expired() <-chan time.Time {
	if h == nil {
		return nil
	}
	return h.expiry
}

// collectHandOver asks an instance that has ended for what its successor needs. If it does not
// respond, nothing is handed over: controllers can handle that, since a process starts the
// same way.
func (u *unit) collectHandOver(r *running) {
	u.handedOver = nil
	left, err := attempt(u, "handing over", handOverLimit, func() (left leaving) {
		left.value, left.passedOn = r.HandOver()
		return left
	}, nil)
	u.mu.Lock()
	u.status.HandOverError = ""
	if err != nil {
		u.status.HandOverError = err.Error()
	}
	u.mu.Unlock()
	if err != nil {
		u.options.Metrics.lost.WithLabelValues(u.d.Name).Inc()
		klog.FromContext(u.ctx).Error(err, "Controller handed nothing over, its successor starts without its state", "stacks", stacks(u.d.Name))
		return
	}
	now := u.options.Clock.Now()
	until := now.Add(handOverTime)
	if left.passedOn {
		until = u.givenUntil
	}
	if left.value != nil && now.Before(until) {
		u.handedOver = &handOver{
			value:   left.value,
			clients: u.want.Spec.Clients,
			until:   until,
			expiry:  u.options.Clock.After(until.Sub(now)),
		}
	}
}

// leaving is what an instance leaves, see Instance.
type leaving struct {
	value    any
	passedOn bool
}

// dropUnusableHandOver drops what was handed over if the wanted instance cannot use it.
func (u *unit) dropUnusableHandOver(next Want) {
	uses := next.State == Running || next.State == Standby || next.State == Paused
	if u.handedOver != nil && (next.State == Disabled || uses && next.Spec.Clients != u.handedOver.clients) {
		u.handedOver = nil
	}
}

// takeHandOver returns what was handed over, for the next instance, and forgets it.
func (u *unit) takeHandOver() any {
	left := u.handedOver
	u.handedOver = nil
	if left == nil || !u.options.Clock.Now().Before(left.until) {
		return nil
	}
	u.givenUntil = left.until
	return left.value
}
