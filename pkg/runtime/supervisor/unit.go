package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
)

// unit is one controller: what is wanted, and its instance. Instances start and stop only in
// its loop, so there are never two at work.
type unit struct {
	ctx          context.Context // carries the logger only
	d            controller.Descriptor
	options      Options
	drainTimeout atomic.Int64 // a time.Duration
	interval     atomic.Int64 // a time.Duration, see SetStartInterval
	resync       atomic.Int64 // a time.Duration

	commanded Want // what the newest command says; changed by Supervisor.Commit only, under mu

	wake chan struct{}
	quit chan struct{}

	mu      sync.Mutex
	next    *move // the newest command not yet carried out
	pending bool  // a command is under way
	halted  bool  // a command follows; see halt
	status  Status
	current *running

	// The rest is owned by the loop.
	want       Want      // what the command says that was carried out last
	warm       func()    // releases what is kept warm
	handedOver *handOver // of the last instance, for the next
	givenUntil time.Time // until when what the current instance was given is to be kept
	failures   int
	retry      <-chan time.Time
	held       *held
	begun      bool   // an instance was to start
	beganIn    uint64 // the term in which that was last
}

func newUnit(ctx context.Context, d controller.Descriptor, o Options) *unit {
	u := &unit{
		ctx:       ctx,
		d:         d,
		options:   o,
		commanded: Want{State: Disabled},
		wake:      make(chan struct{}, 1),
		quit:      make(chan struct{}),
		status:    Status{Name: d.Name, State: Disabled, Restarts: map[string]uint64{}},
		want:      Want{State: Disabled},
	}
	u.drainTimeout.Store(int64(10 * time.Second))
	o.Metrics.setState(d.Name, Disabled)
	o.Metrics.lost.WithLabelValues(d.Name) // created at the start, so that the first increase is visible
	return u
}

// halt has the instance begin nothing more: a command to replace or stop it follows. Its end, or that of
// one which is started meanwhile, is no failure.
func (u *unit) halt(cause Cause) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.halted = true
	if u.current != nil {
		u.current.cancel(ordered(cause))
	}
}

// isHalted reports whether a command follows, or waits to be carried out.
func (u *unit) isHalted() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.isHaltedLocked()
}

func (u *unit) isHaltedLocked() bool { return u.halted || u.next != nil }

// errHalted is why an instance has to end that was started when a command was about to come.
var errHalted = errors.New("stopped: it is about to be replaced")

// ordered is why an instance has to end.
func ordered(by Cause) error { return fmt.Errorf("stopped: %s", by) }

// command hands a move to the loop. A move that was not carried out yet is replaced.
func (u *unit) command(m move) {
	u.mu.Lock()
	u.commanded = m.want
	u.resync.Store(int64(m.want.Resync))
	if m.keep {
		if u.current != nil {
			u.current.SetResync(m.want.Resync)
		}
		if u.next == nil && u.status.State == m.want.State {
			u.status.Reason = m.want.Reason
		}
		u.mu.Unlock()
		return
	}
	replaced := u.next
	u.next, u.halted = &m, false
	u.pending = true
	u.mu.Unlock()
	if replaced != nil {
		replaced.discard()
	}
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

func (u *unit) loop() {
	check := u.options.Clock.NewTicker(u.options.CheckEvery)
	defer check.Stop()
	for {
		var done <-chan struct{}
		var failed <-chan error
		if u.current != nil && !u.isHalted() {
			done, failed = u.current.done, u.current.failed
		}
		select {
		case <-u.wake:
			u.carryOut()
		case <-u.held.due():
			u.startHeld()
		case <-done:
			if u.isHalted() {
				continue // until the command
			}
			cause, err := u.current.whyEnded()
			u.crashed(err, cause)
		case err := <-failed:
			u.crashed(err, causePanic)
		case <-u.retry:
			u.tryAgain()
		case <-u.handedOver.expired():
			u.handedOver = nil
		case <-check.C():
			u.checkStuck()
		case <-u.quit:
			u.end()
			return
		}
	}
}

// carryOut carries out the newest command.
func (u *unit) carryOut() {
	for {
		u.mu.Lock()
		m := u.next
		u.next = nil
		if m == nil {
			u.pending = false
			u.mu.Unlock()
			return
		}
		u.mu.Unlock()
		u.moveTo(m)
	}
}

// moveTo carries out a command, which is a new beginning: earlier failures are forgotten.
func (u *unit) moveTo(m *move) {
	u.retry, u.failures = nil, 0
	u.dropHeld()
	if u.current != nil {
		if m.want.State == Running {
			u.countRestart(m.cause)
		}
		u.stop(ordered(m.cause))
	}
	u.mu.Lock()
	u.status.Stuck = ""
	u.mu.Unlock()
	if u.warm != nil {
		defer u.warm()
		u.warm = nil
	}
	u.dropUnusableHandOver(m.want)
	u.want = m.want
	u.install(m)
}

// install installs what a move has built. Nothing runs when it is called.
func (u *unit) install(m *move) {
	u.warm = m.warm
	switch {
	case m.err != nil:
		u.backOff(fmt.Errorf("building: %w", m.err), min(buildRetryMax, u.options.BackoffMax))
	case m.want.State != Running:
		u.recordNotRunning(m.want)
	case m.instance == nil:
		u.setState(Idle, "nothing to do in this configuration")
	default:
		u.startOrHold(m)
	}
}

func (u *unit) start(i Instance, failed chan error, decided time.Time) {
	now := u.options.Clock.Now()
	period := u.resync.Load()
	i.SetResync(time.Duration(period))
	r := start(u.ctx, u.d.Name, i, failed, u.takeHandOver(), now)

	u.mu.Lock()
	u.current = r
	if now := u.resync.Load(); now != period { // by a command that did not see the instance
		r.SetResync(time.Duration(now))
	}
	if u.isHaltedLocked() {
		r.cancel(errHalted)
	}
	u.status.Generation++
	u.status.Started = now
	u.status.Stuck = ""
	generation := u.status.Generation
	u.mu.Unlock()
	u.setState(Running, "")
	u.options.Metrics.started(u.d.Name, generation, now.Sub(decided))
	klog.FromContext(u.ctx).V(1).Info("Controller started", "generation", generation)
}

// end stops everything, permanently.
func (u *unit) end() {
	u.mu.Lock()
	pending := u.next
	u.next = nil
	u.mu.Unlock()
	if pending != nil {
		pending.discard()
	}
	u.dropHeld()
	if u.current != nil {
		u.stop(errors.New("shutting down"))
	}
	if u.warm != nil {
		u.warm()
		u.warm = nil
	}
	u.setState(Disabled, "shut down")
	u.mu.Lock()
	u.pending = false
	u.mu.Unlock()
}

func (u *unit) countRestart(cause Cause) {
	u.options.Metrics.restarts.WithLabelValues(u.d.Name, string(cause)).Inc()
	u.mu.Lock()
	u.status.Restarts[string(cause)]++
	u.mu.Unlock()
}

func (u *unit) setState(s State, reason string) {
	u.mu.Lock()
	u.status.State, u.status.Reason = s, reason
	u.mu.Unlock()
	u.options.Metrics.setState(u.d.Name, s)
}

// recordNotRunning records that nothing runs, and why. The reason can have changed since the command that is carried
// out.
func (u *unit) recordNotRunning(want Want) {
	u.mu.Lock()
	if u.commanded.equal(want) {
		want.Reason = u.commanded.Reason
	}
	u.status.State, u.status.Reason = want.State, want.Reason
	u.mu.Unlock()
	u.options.Metrics.setState(u.d.Name, want.State)
}
