package election

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// maxJitter spreads candidates that wait for the same lease to expire.
const maxJitter = 100 * time.Millisecond

// Options configure an Elector.
type Options struct {
	// Leases accesses the API server. Its client should have no timeout and no rate limit
	// of its own: every request is bounded by max(1s, RenewDeadline/2).
	Leases coordinationv1client.LeasesGetter
	// Namespace and Name say which Lease is contended for.
	Namespace, Name string
	// Identity names this candidate. It must be unique: upstream uses <hostname>_<uuid>.
	Identity string
	// Timings must be valid, see Timings. They change live with SetTimings.
	Timings Timings
	// OnChange is called with every new State, by the goroutine that runs the election: it
	// must not block. Optional.
	OnChange func(State)
	// Events records `<identity> became leader` and `<identity> stopped leading`. Optional.
	Events record.EventRecorder
	// Metrics, see NewMetrics. Optional.
	Metrics Metrics
	// Clock defaults to the real one. It must be monotonic.
	Clock clock.WithTicker
	// Jitter returns a random duration below limit. Optional.
	Jitter func(limit time.Duration) time.Duration
}

// State is who leads.
type State struct {
	// Term is the current Term of this process, nil while it stands by. It can end at any
	// time: watch Done.
	Term *Term
	// Holder is the last observed holder, empty if nobody is known to hold the lease.
	Holder string
}

// Elector contends for a lease. Use New.
type Elector struct {
	opts   Options
	client coordinationv1client.LeaseInterface
	wake   chan struct{}
	terms  sync.WaitGroup // guards of Terms

	// turn is held by whoever decides and sends requests: Run or Release.
	turn      sync.Mutex
	mayHold   bool // a write may have made this process the holder
	refetched bool // the lease was read since the last renewal
	conflicts int  // writes in a row that met another version

	// publishing orders calls of OnChange.
	publishing sync.Mutex
	published  State

	// mu guards what follows. It is never held during a request. lease, view and term are
	// written by the holder of turn only, but for view.renewNow and view.watched.
	mu        sync.Mutex
	timings   Timings
	lease     *coordinationv1.Lease // as last seen, nil if it was never seen
	view      view                  // leading, holder and duration are derived, see snapshot
	term      *Term
	termID    uint64 // ID of the newest Term
	released  bool
	lastErr   error
	lastErrAt time.Time
}

// New returns an Elector that does nothing before Run.
func New(o Options) (*Elector, error) {
	if o.Leases == nil || o.Namespace == "" || o.Name == "" || o.Identity == "" {
		return nil, errors.New("creating elector: Leases, Namespace, Name and Identity are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	if o.Jitter == nil {
		o.Jitter = rand.N[time.Duration]
	}
	o.Metrics.SetLeading(o.Name, false)
	return &Elector{
		opts:    o,
		client:  o.Leases.Leases(o.Namespace),
		wake:    make(chan struct{}, 1),
		timings: o.Timings,
	}, nil
}

// State returns the current State.
func (e *Elector) State() State {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := State{Term: e.term}
	if e.view.exists {
		s.Holder = holderOf(e.lease)
	}
	return s
}

// SetTimings changes the timings at once, without giving up the lease: the holder renews
// now, so that other candidates learn of the new duration.
func (e *Elector) SetTimings(t Timings) {
	e.mu.Lock()
	if e.timings != t {
		e.timings = t
		e.view.renewNow = true
		if e.term != nil {
			e.term.limit(e.view.renewedAt.Add(t.validFor(secondsOf(e.lease))))
		}
	}
	e.mu.Unlock()
	e.signal()
}

func (e *Elector) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run contends for the lease until ctx ends or Release is called, and returns when every
// goroutine it started has. Whatever Term is left then ends, as nobody renews it any more.
// The lease itself is not released: see Release. Run may be called once.
func (e *Elector) Run(ctx context.Context) {
	klog.FromContext(ctx).Info("contending for lease", "lease", klog.KRef(e.opts.Namespace, e.opts.Name), "identity", e.opts.Identity)
	watcher := &watcher{elector: e}
	for ctx.Err() == nil && !e.isReleased() {
		after := e.step(ctx)
		e.publish()
		e.pause(ctx, watcher, after)
	}
	watcher.stop()
	cause := ErrStopped
	if e.isReleased() {
		cause = ErrReleased
	}
	e.turn.Lock()
	e.loseTerm(ctx, cause)
	e.turn.Unlock()
	e.publish()
	watcher.running.Wait()
	e.terms.Wait()
}

// pause returns when a new decision is due.
func (e *Elector) pause(ctx context.Context, w *watcher, after time.Duration) {
	after = min(after, w.ensure(ctx)) // a watch that failed is due again
	timer := e.opts.Clock.NewTimer(after)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-e.wake:
	case <-timer.C():
	case <-e.termDone():
	case s := <-w.sightings:
		e.turn.Lock()
		w.handle(ctx, s)
		e.turn.Unlock()
	}
}

// termDone is closed when the current Term is over; nil without one.
func (e *Elector) termDone() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == nil {
		return nil
	}
	return e.term.Done()
}

func (e *Elector) isReleased() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.released
}

// publish tells OnChange of a new State.
func (e *Elector) publish() {
	e.publishing.Lock()
	defer e.publishing.Unlock()
	s := e.State()
	if s == e.published {
		return
	}
	e.published = s
	if e.opts.OnChange != nil {
		e.opts.OnChange(s)
	}
}

// Release gives the lease back, so that another candidate takes it at once, and ends Run.
// It must be called after everything that relies on the Term has stopped, before or after
// Run has returned. It does nothing if this process does not hold the lease. It ends the
// Term in any case.
func (e *Elector) Release(ctx context.Context) error {
	e.mu.Lock()
	e.released = true
	e.mu.Unlock()
	e.signal()

	e.turn.Lock()
	defer e.publish()
	defer e.turn.Unlock()
	e.loseTerm(ctx, ErrReleased)
	return e.giveBack(ctx)
}
