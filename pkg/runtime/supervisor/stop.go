package supervisor

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller/concurrent"
)

// fencedGrace is how long an instance that was fenced at the end of its drain timeout
// may take to notice.
const fencedGrace = time.Second

// stop ends the current instance: it is asked to finish, fenced if it takes too long, and
// abandoned if it ignores that too.
func (u *unit) stop(cause error) {
	r := u.current
	began := u.options.Clock.Now()
	u.setState(Stopping, cause.Error())
	r.cancel(cause)
	stopped := u.wait(r.done, time.Duration(u.drainTimeout.Load()))
	if !stopped {
		r.Fence(fmt.Errorf("not stopped within the drain timeout: %w", cause))
		stopped = u.wait(r.done, fencedGrace)
	}
	u.mu.Lock()
	u.current = nil
	u.mu.Unlock()
	u.options.Metrics.drain.WithLabelValues(u.d.Name).Observe(u.options.Clock.Since(began).Seconds())
	if !stopped {
		u.abandon(r)
		return
	}
	u.releaseStopped(r)
}

// wait reports whether something happened in time.
func (u *unit) wait(done <-chan struct{}, limit time.Duration) bool {
	_, ok := within(u, done, limit)
	return ok
}

// releaseStopped takes over what a stopped instance hands over, and releases the rest.
func (u *unit) releaseStopped(r *running) {
	r.Fence(errors.New("the instance has ended"))
	if !r.panics {
		u.collectHandOver(r)
	}
	u.release(r.Instance)
}

// release closes an instance, which waits for its event handlers. One that hangs is
// abandoned.
func (u *unit) release(i Instance) {
	_, err := attempt(u, "releasing an instance", max(time.Duration(u.drainTimeout.Load()), fencedGrace),
		func() struct{} {
			i.Close()
			return struct{}{}
		}, nil)
	if err != nil {
		u.recordAbandoned(err, "The resources of a stopped controller cannot be released; it is abandoned and cannot write")
	}
}

// abandon gives up an instance that does not stop. It is fenced, and what it holds is
// released although it still runs, so that its successor replaces it completely. As it can
// write nothing, there is no reason to end the process.
func (u *unit) abandon(r *running) {
	u.recordAbandoned(nil, "Controller did not stop; it is abandoned and its writes are refused from now on")
	// Not waited for: a handler that hangs would hold up the successor.
	go func() {
		if panicked := concurrent.Catch(r.Close); panicked != nil {
			klog.FromContext(u.ctx).Error(panicked, "Releasing an abandoned controller")
		}
	}()
}

func (u *unit) recordAbandoned(err error, message string) {
	u.options.Metrics.abandoned.WithLabelValues(u.d.Name).Inc()
	u.mu.Lock()
	u.status.Abandoned++
	u.mu.Unlock()
	klog.FromContext(u.ctx).Error(err, message, "stacks", stacks(u.d.Name))
}
