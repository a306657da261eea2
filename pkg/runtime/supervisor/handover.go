package supervisor

import (
	"time"

	"k8s.io/klog/v2"
)

// HandOverTime is for how long what an instance handed over is kept for its successor. By
// then caches show what was written, and a process that stands by gives the memory back. A
// lease may change hands twice within it, so a successor concludes nothing from what it
// was handed that another process could have undone.
const HandOverTime = 5 * time.Minute

// legacy is what an instance handed over. It is of use to a successor that talks to the
// same API server: another one has other objects, and versions that cannot be compared.
type legacy struct {
	value   any
	clients uint64
	until   time.Time
	expiry  <-chan time.Time // frees the memory
}

// expired receives a value when the time is over. Nil waits for ever.
func (l *legacy) expired() <-chan time.Time {
	if l == nil {
		return nil
	}
	return l.expiry
}

// inherit asks an instance that has ended for what its successor needs. If it does not get
// to it, nothing is handed over: that is what every start of a process copes with.
func (u *unit) inherit(r *running) {
	u.legacy = nil
	value, err := attempt(u, "handing over", handOverLimit, r.HandOver, nil)
	u.mu.Lock()
	u.status.HandOverError = ""
	if err != nil {
		u.status.HandOverError = err.Error()
	}
	u.mu.Unlock()
	if err != nil {
		u.options.Metrics.lost.WithLabelValues(u.d.Name).Inc()
		klog.FromContext(u.ctx).Error(err, "Controller handed nothing over; its successor starts without", "stacks", Stacks(u.d.Name))
		return
	}
	if value != nil {
		u.legacy = &legacy{
			value:   value,
			clients: u.want.Spec.Clients,
			until:   u.options.Clock.Now().Add(HandOverTime),
			expiry:  u.options.Clock.After(HandOverTime),
		}
	}
}

// disinherit drops what was handed over if it is of no use for what is wanted now.
func (u *unit) disinherit(next Want) {
	uses := next.State == Running || next.State == Standby
	if u.legacy != nil && (next.State == Disabled || uses && next.Spec.Clients != u.legacy.clients) {
		u.legacy = nil
	}
}

// bequeath gives away what was handed over.
func (u *unit) bequeath() any {
	left := u.legacy
	u.legacy = nil
	if left == nil || !u.options.Clock.Now().Before(left.until) {
		return nil
	}
	return left.value
}
