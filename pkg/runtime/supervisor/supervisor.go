package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sort"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/controller"
)

// Want is what one controller should be doing.
type Want struct {
	// State is Disabled, Waiting, Standby or Running.
	State State
	// Reason explains a State that is not Running.
	Reason string
	// Spec is what the instance is made from, if the state is Standby or Running.
	Spec Spec
	// Resync is the resync period of its handlers; it changes in place.
	Resync time.Duration
}

// equal reports that no instance has to be replaced to get from one want to the other.
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
	// StuckAfter is how long a controller may work on one key before its instance
	// is replaced. Default: 10 min. CheckEvery is how often that is looked at.
	// Default: 5 s.
	StuckAfter, CheckEvery time.Duration
}

// Cause says why Synchronize was called. It ends up in the restarts metric.
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
	if o.BackoffMin == 0 {
		o.BackoffMin = time.Second
	}
	if o.BackoffMax == 0 {
		o.BackoffMax = 5 * time.Minute
	}
	if o.StuckAfter == 0 {
		o.StuckAfter = 10 * time.Minute
	}
	if o.CheckEvery == 0 {
		o.CheckEvery = 5 * time.Second
	}
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

// SetStartInterval has each controller that is started from now on because the process
// has, or because a lease was won, wait for a random time between d and twice d first. A
// controller that is started for any other reason does not wait. 0 means no wait.
func (s *Supervisor) SetStartInterval(d time.Duration) {
	for _, u := range s.units {
		u.interval.Store(int64(d))
	}
}

// Synchronize makes every controller do what is wanted of it. Controllers that are not
// in desired are disabled.
//
//   - unchanged: the instance is kept, its resync period adjusted
//   - no longer wanted: the instance is told to stop
//   - new or changed: a new instance is built, and started once the old one stopped
//
// It returns when all instances are built, not when they run. A controller that cannot be
// built backs off and tries again; the failures are returned.
func (s *Supervisor) Synchronize(desired map[string]Want, cause Cause) error {
	prepared, err := s.Prepare(desired, cause)
	prepared.Commit()
	return err
}

// Prepared is what Synchronize is going to do. Either Commit or Discard is to be called,
// before anything else is prepared.
type Prepared struct {
	supervisor *Supervisor
	moves      []move
}

// Prepare builds what a Synchronize needs, without any effect on what runs. The error says
// which controllers could not be built; what was prepared can be committed nevertheless.
func (s *Supervisor) Prepare(desired map[string]Want, cause Cause) (*Prepared, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	prepared := &Prepared{supervisor: s}
	var failures []error
	for _, name := range s.order {
		u := s.units[name]
		want, ok := desired[name]
		if !ok {
			want = Want{State: Disabled}
		}
		if u.wanted.equal(want) {
			prepared.moves = append(prepared.moves, move{unit: u, want: want, keep: true})
			continue
		}
		m := u.prepare(want, cause)
		if m.err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", name, m.err))
		}
		prepared.moves = append(prepared.moves, m)
	}
	return prepared, errors.Join(failures...)
}

// Commit tells every controller what to do.
func (p *Prepared) Commit() {
	p.supervisor.mu.Lock()
	defer p.supervisor.mu.Unlock()
	for _, m := range p.moves {
		m.unit.command(m)
	}
}

// Discard releases what was built. Nothing has changed.
func (p *Prepared) Discard() {
	for _, m := range p.moves {
		m.discard()
	}
}

// Shutdown stops all controllers and returns when they have stopped or were given up.
func (s *Supervisor) Shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.units {
		close(u.quit)
	}
	s.wg.Wait()
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

// Status returns a snapshot of every controller, sorted by name.
func (s *Supervisor) Status() []Status {
	all := make([]Status, 0, len(s.units))
	for _, u := range s.units {
		all = append(all, u.snapshot())
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}
