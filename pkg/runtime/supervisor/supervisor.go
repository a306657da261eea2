package supervisor

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
)

// Want is what one controller should be doing.
type Want struct {
	// State is Disabled, Waiting, Standby, Paused or Running.
	State State
	// Reason explains a State that is not Running.
	Reason string
	// Spec is what the instance is made from, if the state is Standby, Paused or Running.
	Spec Spec
	// Resync is the resync period of its handlers; it changes in place.
	Resync time.Duration
}

// equal reports whether no instance has to be replaced to get from one want to the other.
func (w Want) equal(o Want) bool {
	return w.State == o.State && w.Spec == o.Spec
}

// Options configure a Supervisor.
type Options struct {
	Builder Builder
	Metrics *Metrics
	Clock   clock.WithTicker
	// BackoffMin and BackoffMax bound the delay before a failed controller is tried
	// again; it doubles with each failure. Defaults: 1 s and 5 min.
	BackoffMin, BackoffMax time.Duration
	// StuckAfter is how long a controller may work on one key before its instance is
	// replaced. Default: DefaultStuckAfter. CheckEvery is how often that is checked. Default: 5 s.
	StuckAfter, CheckEvery time.Duration
}

// DefaultStuckAfter leaves an operator time to look: an alert fires before it is over.
const DefaultStuckAfter = 10 * time.Minute

// Cause is why Synchronize was called, as shown in the restarts metric.
type Cause string

// The causes. Those that are not exported are the supervisor's own.
const (
	CauseStart    Cause = "start"
	CauseConfig   Cause = "config"
	CauseFile     Cause = "file"
	CauseClients  Cause = "clients"
	CauseLease    Cause = "lease"
	CauseAPI      Cause = "api"
	CauseShutdown Cause = "shutdown"
	causeCrash    Cause = "crash"
	causePanic    Cause = "panic"
	causeStuck    Cause = "stuck"
)

// Supervisor keeps the running controllers equal to the desired ones.
type Supervisor struct {
	options Options
	units   map[string]*unit
	order   []string
	wg      sync.WaitGroup

	mu sync.Mutex // serialises Prepare and Commit
}

// New makes a supervisor of the controllers described. They are all disabled until the
// first Synchronize. ctx carries the logger; it does not stop the supervisor, Shutdown does.
func New(ctx context.Context, o Options, descriptors []controller.Descriptor) *Supervisor {
	o.BackoffMin = cmp.Or(o.BackoffMin, time.Second)
	o.BackoffMax = cmp.Or(o.BackoffMax, 5*time.Minute)
	o.StuckAfter = cmp.Or(o.StuckAfter, DefaultStuckAfter)
	o.CheckEvery = cmp.Or(o.CheckEvery, 5*time.Second)
	s := &Supervisor{options: o, units: map[string]*unit{}}
	for _, d := range descriptors {
		logger := klog.LoggerWithName(klog.FromContext(ctx), d.Name)
		u := newUnit(klog.NewContext(context.WithoutCancel(ctx), logger), d, o)
		s.units[d.Name] = u
		s.order = append(s.order, d.Name)
		s.wg.Go(u.loop)
	}
	return s
}

// SetDrainTimeout changes how long instances that are stopped from now on may take.
func (s *Supervisor) SetDrainTimeout(d time.Duration) {
	for _, u := range s.units {
		u.drainTimeout.Store(int64(d))
	}
}

// SetStartInterval delays each controller that is started from now on because the process
// started or a lease was won, by a random time between d and twice d. A controller that is
// started for any other reason does not wait. 0 means no wait.
func (s *Supervisor) SetStartInterval(d time.Duration) {
	for _, u := range s.units {
		u.interval.Store(int64(d))
	}
}

// Synchronize makes every controller do what is desired. Controllers that are not in desired
// are disabled.
//
//   - unchanged: the instance is kept, its resync period adjusted
//   - no longer wanted: the instance is stopped
//   - new or changed: a new instance is built, and started once the old one stopped
//
// A controller whose instance is built does not wait for the others. Synchronize returns when all
// instances are built, not when they run. A controller that cannot be built backs off and tries
// again; the failures are returned, with what was done.
func (s *Supervisor) Synchronize(desired map[string]Want, cause Cause) ([]Done, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Done, 0, len(s.order))
	var failures []error
	for _, name := range s.order {
		m, err := s.prepare(name, desired, cause)
		all = append(all, m.commit())
		failures = append(failures, err)
	}
	return all, errors.Join(failures...)
}

// Prepared is what a Synchronize would do. Either Commit or Discard is to be called, before
// anything else is prepared.
type Prepared struct {
	supervisor *Supervisor
	moves      []move
}

// Prepare builds what a Synchronize needs, without any effect on what runs. The error names
// the controllers that could not be built; what was prepared can be committed nevertheless.
func (s *Supervisor) Prepare(desired map[string]Want, cause Cause) (*Prepared, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	prepared := &Prepared{supervisor: s}
	var failures []error
	for _, name := range s.order {
		m, err := s.prepare(name, desired, cause)
		prepared.moves = append(prepared.moves, m)
		failures = append(failures, err)
	}
	return prepared, errors.Join(failures...)
}

// BuildError is why a controller cannot be built.
type BuildError struct {
	Controller string
	Err        error
}

// Error implements error.
func (e *BuildError) Error() string { return e.Controller + ": " + e.Err.Error() }

// Unwrap returns the error without the name of the controller.
func (e *BuildError) Unwrap() error { return e.Err }

// BuildErrorsIn returns the errors of single controllers that an error of Prepare or Synchronize consists of.
func BuildErrorsIn(err error) []*BuildError {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var all []*BuildError
	for _, one := range joined.Unwrap() {
		var of *BuildError
		if errors.As(one, &of) {
			all = append(all, of)
		}
	}
	return all
}

// prepare builds what one controller needs. The error is a *BuildError.
func (s *Supervisor) prepare(name string, desired map[string]Want, cause Cause) (move, error) {
	u := s.units[name]
	want, ok := desired[name]
	if !ok {
		want = Want{State: Disabled}
	}
	if u.commanded.equal(want) {
		return move{unit: u, before: u.commanded, want: want, keep: true}, nil
	}
	m := u.prepare(want, cause)
	m.before = u.commanded
	if m.err != nil {
		return m, &BuildError{name, m.err}
	}
	return m, nil
}

// Halt has the instances that are going to be replaced or stopped begin nothing more. Commit is to follow.
func (p *Prepared) Halt() {
	p.supervisor.mu.Lock()
	defer p.supervisor.mu.Unlock()
	for _, m := range p.moves {
		if !m.keep {
			m.unit.halt(m.cause)
		}
	}
}

// Commit tells every controller what to do, and returns what it told them.
func (p *Prepared) Commit() []Done {
	p.supervisor.mu.Lock()
	defer p.supervisor.mu.Unlock()
	all := make([]Done, 0, len(p.moves))
	for _, m := range p.moves {
		all = append(all, m.commit())
	}
	return all
}

// Discard releases what was built. Nothing has changed.
func (p *Prepared) Discard() {
	for _, m := range p.moves {
		m.discard()
	}
}

// Shutdown stops all controllers and returns when they have stopped or were abandoned.
func (s *Supervisor) Shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.units {
		close(u.quit)
	}
	s.wg.Wait()
}

// Pending returns the controllers, and whether each has yet to carry out its last command.
func (s *Supervisor) Pending() map[string]bool {
	all := make(map[string]bool, len(s.units))
	for name, u := range s.units {
		u.mu.Lock()
		all[name] = u.pending
		u.mu.Unlock()
	}
	return all
}

// DebuggingHandler is what the running instance of a controller shows of itself, nil if
// it does not run or shows nothing.
func (s *Supervisor) DebuggingHandler(name string) http.Handler {
	u, ok := s.units[name]
	if !ok {
		return nil
	}
	u.mu.Lock()
	current := u.current
	u.mu.Unlock()
	if current == nil {
		return nil
	}
	return u.debuggingHandler(current)
}

// Keys returns, by controller, what running instances hold of the keys whose text is wanted.
func (s *Supervisor) Keys(wanted func(key string) bool) map[string][]controller.LoopKey {
	all := map[string][]controller.LoopKey{}
	for name, u := range s.units {
		u.mu.Lock()
		current := u.current
		u.mu.Unlock()
		if current == nil {
			continue
		}
		ask := func() []controller.LoopKey { return current.Keys(wanted) }
		if keys := inspect(u, current, ask); len(keys) > 0 {
			all[name] = keys
		}
	}
	return all
}

// Status returns a snapshot of every controller, sorted by name.
func (s *Supervisor) Status() []Status {
	all := make([]Status, 0, len(s.units))
	for _, u := range s.units {
		all = append(all, u.snapshot())
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
