package election

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apiserver/pkg/server/healthz"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// maxJitter spreads candidates that wait for the same lease to expire: if two are as fast, the API server refuses
// one of them.
const maxJitter = 20 * time.Millisecond

// Options configure an Elector.
type Options struct {
	// Leases accesses the API server. Its client should have no timeout and no rate limit
	// of its own: every request is bounded by max(1s, RenewDeadline/2).
	Leases coordinationv1client.LeasesGetter
	// Namespace and Name say which Lease is contended for.
	Namespace, Name string
	// Identity names this candidate. It must be unique, as <hostname>_<uuid> is: a candidate
	// of the same Identity is treated as another one, but messages cannot tell them apart.
	Identity string
	// Timings must be valid, see Timings. They change live with SetTimings.
	Timings Timings
	// Labels and Annotations are put on the lease with every write of this process: the one
	// that takes the lease, every renewal, and the one that gives it back. An empty value
	// removes a key; keys of others stay. Optional. Annotations change live with
	// SetAnnotations.
	Labels, Annotations map[string]string
	// Farewell returns further annotations for the write that gives the lease back. It is
	// given the lease as it is about to be stored, which it must not change. Optional.
	Farewell func(*coordinationv1.Lease) map[string]string
	// Delay is how long to leave a lease that is free or has expired to other candidates: a
	// less loaded one, with a shorter delay, goes first. It counts from when the lease was
	// seen to be free, or its expiry, and is asked again with every decision; it is not
	// asked for a lease that this process was the last to hold. It must not block; it may
	// call State. Default: none.
	Delay func() time.Duration
	// Coordinated lets the API server choose the holder: see Coordination. Optional.
	Coordinated *Coordination
	// OnRecede is called when versions have gone back, as after a restore of etcd. The Term has ended with
	// ErrRestored by then. It is called by the goroutine that has asked the API server, and must not block. It is
	// meant to call Recede; otherwise the Elector goes on with what it reads from then on. Optional.
	OnRecede func()
	// OnSilence is called when no request has been answered for RenewDeadline, and again each time that long after that.
	// An API server that has lost etcd answers pings, so that its connections are kept, and no request: behind an address
	// that leads to several, others could be reached. It must not block. Optional.
	OnSilence func()
	// Caution is that of another Elector of the same lease, which this one replaces. Optional.
	Caution Caution
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
	// Annotations are those last observed on the lease, also if it has no holder; nil if it
	// does not exist. A standby sees a change at once. The holder sees what others wrote
	// after its next renewal, within RetryPeriod.
	Annotations map[string]string
	// Decided is set once the lease has been read, and taken if it was free, or that has
	// failed.
	Decided bool
}

func (s State) equal(other State) bool {
	return s.Term == other.Term && s.Holder == other.Holder && s.Decided == other.Decided && maps.Equal(s.Annotations, other.Annotations)
}

// Elector contends for a lease. Use New.
type Elector struct {
	opts   Options
	client coordinationv1client.LeaseInterface
	wake   chan struct{}
	terms  sync.WaitGroup // guards of Terms

	candidacy sync.WaitGroup // what keeps the LeaseCandidate, with Coordination

	policy func(v view, now time.Time, self string, t Timings) action

	// turn is held, by putting a value into it, by the one that decides and sends requests:
	// Run, Release or Yield. It guards what follows.
	turn       chan struct{}
	mayHold    bool      // a write may have made this process the holder
	lastHolder string    // who was last seen to hold the lease
	refetched  bool      // the lease was read since the last renewal
	conflicts  int       // writes in a row that met another version
	silence    time.Time // since when no request was answered, or OnSilence was called; zero if the last one was
	written    records

	// publishing orders calls of OnChange.
	publishing sync.Mutex
	published  State

	// mu guards what follows. It is never held during a request. lease, view and term are
	// written by the holder of turn only, but for view.renewNow, retryAt, holdOff and watched.
	mu       sync.Mutex
	timings  Timings
	metadata metadata
	lease    *coordinationv1.Lease // as last seen, nil if it was never seen
	view     view                  // leading, holder and duration are derived, see snapshot
	term     *Term
	decided  bool
	// unwatchedUntil is until when watches of the lease are not trusted.
	unwatchedUntil time.Time
	termID         uint64                // ID of the newest Term
	released       bool                  // Release or Recede was called: no Term begins any more
	receded        bool                  // Recede was called
	retire         context.CancelFunc    // ends candidacy; nil before Run
	candidate      healthz.HealthChecker // of the LeaseCandidate's informer; nil before it is made
	lastErr        error
	lastErrAt      time.Time

	stored        uint64        // edition of the metadata that this process last stored
	storedChanged chan struct{} // closed when stored changes
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
	policy := decide
	if o.Coordinated != nil {
		policy = decideCoordinated
		c, err := o.Coordinated.complete()
		if err != nil {
			return nil, fmt.Errorf("creating elector: %w", err)
		}
		o.Coordinated = c
	}
	return &Elector{
		opts:          o,
		client:        o.Leases.Leases(o.Namespace),
		wake:          make(chan struct{}, 1),
		turn:          make(chan struct{}, 1),
		policy:        policy,
		timings:       o.Timings,
		metadata:      metadata{labels: maps.Clone(o.Labels), annotations: maps.Clone(o.Annotations)},
		storedChanged: make(chan struct{}),

		view:           view{holdOff: o.Caution.HoldOff},
		unwatchedUntil: o.Caution.Unwatched,
	}, nil
}

// State returns the current State.
func (e *Elector) State() State {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := State{Term: e.term, Decided: e.decided}
	if e.view.exists {
		s.Holder = holderOf(e.lease)
		s.Annotations = maps.Clone(e.lease.Annotations)
	}
	return s
}

// Lease is the lease as last seen, nil if it does not exist or was never seen. It must not be
// changed.
func (e *Elector) Lease() *coordinationv1.Lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.view.exists {
		return nil
	}
	return e.lease
}

// SetTimings changes the timings at once, without giving up the lease: the holder renews
// now, so that other candidates learn of the new duration. An attempt that has failed is
// repeated after the new RetryPeriod if that is sooner.
func (e *Elector) SetTimings(t Timings) {
	e.mu.Lock()
	if e.timings != t {
		e.timings = t
		e.view.renewNow = true
		if retryAt := e.opts.Clock.Now().Add(t.RetryPeriod); retryAt.Before(e.view.retryAt) {
			e.view.retryAt = retryAt
		}
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

// Run contends for the lease until ctx ends, or Release or Recede is called, and returns when every
// goroutine it started has. The current Term, if any, then ends, since nobody renews it any
// more. The lease itself is not released: see Release. Run may be called once.
func (e *Elector) Run(ctx context.Context) {
	klog.FromContext(ctx).Info("Competing for lease", "lease", klog.KRef(e.opts.Namespace, e.opts.Name), "identity", e.opts.Identity)
	e.opts.Metrics.SetLeading(e.opts.Name, false)
	watcher := &watcher{elector: e}
	retire := e.beginCandidacy(ctx)
	for ctx.Err() == nil && !e.isReleased() {
		after := e.step(ctx)
		e.noteDecided()
		e.publish()
		e.pause(ctx, watcher, after)
	}
	watcher.stop()
	retire()
	cause := ErrStopped
	if e.isReleased() {
		cause = ErrReleased
	}
	e.turn <- struct{}{}
	e.loseTerm(ctx, cause)
	<-e.turn
	e.opts.Metrics.Forget(e.opts.Name)
	e.publish()
	watcher.running.Wait()
	e.candidacy.Wait()
	e.terms.Wait()
}

func (e *Elector) noteDecided() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.decided = true
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
		e.turn <- struct{}{}
		w.handle(ctx, s)
		<-e.turn
	}
}

// requestTimeout bounds one request.
func (e *Elector) requestTimeout() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.timings.requestTimeout()
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

// publish reports a new State to OnChange.
func (e *Elector) publish() {
	e.publishing.Lock()
	defer e.publishing.Unlock()
	s := e.State()
	if s.equal(e.published) {
		return
	}
	e.published = s
	if e.opts.OnChange != nil {
		e.opts.OnChange(s)
	}
}
