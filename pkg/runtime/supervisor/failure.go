package supervisor

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

// crashed replaces an instance that returned or failed on its own.
func (u *unit) crashed(err error, cause Cause) {
	if err == nil {
		err = errEnded
	}
	u.countRestart(cause)
	if u.options.Clock.Since(u.current.started) > u.options.BackoffMax {
		u.failures = 0
	}
	u.stop(err)
	u.backOff(err, u.options.BackoffMax)
}

// whyEnded is why an instance has failed whose Run returned: because a handler panicked, which Run need not know.
func (r *running) whyEnded() (Cause, error) {
	if r.panics {
		return causePanic, r.err
	}
	select {
	case err := <-r.failed:
		return causePanic, err
	default:
		return causeCrash, r.err
	}
}

// buildRetryMax is the longest delay before an instance that could not be built is tried
// again. It is short because building needs the API server, which may be back any time, and
// costs little.
const buildRetryMax = 30 * time.Second

// backOff tries again after a delay that doubles with each failure, up to a limit.
func (u *unit) backOff(err error, limit time.Duration) {
	delay := min(u.options.BackoffMin<<min(u.failures, 16), limit)
	u.failures++
	u.retry = u.options.Clock.After(delay)
	u.mu.Lock()
	u.status.LastError = err.Error()
	u.status.LastErrorTime = u.options.Clock.Now()
	u.mu.Unlock()
	u.setState(BackingOff, fmt.Sprintf("next attempt in %v", delay))
	klog.FromContext(u.ctx).Error(err, "Controller failed", "retryIn", delay)
}

// tryAgain builds what is wanted once more after a failure.
func (u *unit) tryAgain() {
	u.retry = nil
	m := u.prepare(u.want, causeCrash)
	u.install(&m)
}

// checkStuck replaces an instance that has been working on one key for too long.
func (u *unit) checkStuck() {
	if u.current == nil {
		return
	}
	stuck := u.stuckOn(u.current)
	if stuck == "" {
		return
	}
	u.mu.Lock()
	u.status.Stuck = stuck
	u.mu.Unlock()
	klog.FromContext(u.ctx).Error(nil, "Controller is stuck", "on", stuck, "stacks", stacks(u.d.Name))
	u.current.Fence(errors.New("stuck on " + stuck))
	u.crashed(errors.New("stuck on "+stuck), causeStuck)
}

// stuckOn describes what an instance has been working on for too long, empty if nothing.
func (u *unit) stuckOn(r *running) string {
	for _, loop := range u.loops(r) {
		if len(loop.InFlight) == 0 {
			continue
		}
		oldest := loop.InFlight[0]
		if age := u.options.Clock.Since(oldest.Since); age >= u.options.StuckAfter {
			return fmt.Sprintf("%s in queue %s for %v", oldest.Key, loop.Queue, age.Round(time.Second))
		}
	}
	if silent := u.unanswered(r); silent >= u.options.StuckAfter {
		return fmt.Sprintf("a call to the controller that has not returned for %v", silent.Round(time.Second))
	}
	return ""
}
