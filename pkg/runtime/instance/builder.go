package instance

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/connection"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/events"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/journal"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/takeover"
	"kcmd.dev/pkg/runtime/telemetry"
)

// Builder makes instances for the supervisor, from what is in force. It implements
// supervisor.Builder and is safe for concurrent use.
type Builder struct {
	hub     *telemetry.Hub
	journal *journal.Journal
	clock   clock.WithTicker
	memory  handOvers
	pauses  Pauses
	breaker Breaker
	// followers are the instances that read files again while they run.
	followers followers

	mu         sync.Mutex // guards what follows
	connection *connection.Connection
	offered    *Offer // nil unless a change is being prepared
	terms      Terms
}

// Terms are those in which this process holds locks.
type Terms interface {
	// Term is the one with a number, nil if it is over.
	Term(number uint64) *election.Term
	// OfController is the one under which a controller records events, nil if there is none.
	OfController(name string) *election.Term
	// BarrierOf returns what a controller waits for before it begins, nil for nothing.
	BarrierOf(name string) *takeover.Barrier
}

// Pauses are where controllers are paused.
type Pauses interface {
	// Of are the namespaces in which a controller is paused. They outlive its instances.
	Of(controller string) *controller.Pauses
}

// Breaker limits the deletions of controllers that delete in bulk.
type Breaker interface {
	controller.Breaker
	// Unclear records deletions with an unknown outcome, see clients.UnclearDeletion.
	Unclear(of schema.GroupResource, namespace, name string, asked time.Time)
}

var errOutdated = errors.New("a later change has superseded this instance")

// NewBuilder makes a Builder, which builds nothing before Use is called. The metrics of
// instances that run are attached to hub; what they write is recorded in the journal. The breaker
// limits the deletions of those that delete in bulk.
func NewBuilder(hub *telemetry.Hub, pauses Pauses, breaker Breaker, j *journal.Journal, clk clock.WithTicker) *Builder {
	return &Builder{hub: hub, pauses: pauses, breaker: breaker, journal: j, clock: clk}
}

// Use sets what instances are built from from now on.
func (b *Builder) Use(c *connection.Connection, t Terms) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.connection, b.terms, b.offered = c, t, nil
}

// Offer is what instances are built from that belong to a change which is being prepared.
type Offer struct {
	// Connection is for those whose spec is of it.
	Connection *connection.Connection
	// Specs are those of the instances that belong to the change, by controller. Meanwhile others are built too,
	// because they had failed, and these outlive a change that is rejected.
	Specs map[string]supervisor.Spec
	// Whole reports which resources are cached whole once the change is made.
	Whole func(schema.GroupVersionResource) bool
}

// Offer sets what instances are built from until Use is called; nil withdraws it. Existing
// instances do not change.
func (b *Builder) Offer(o *Offer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.offered = o
}

// whole reports, for an instance of a controller, which resources all controllers together cache whole; nil means as in
// force.
func (b *Builder) whole(name string, spec supervisor.Spec) func(schema.GroupVersionResource) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.offered == nil {
		return nil
	}
	if of, changes := b.offered.Specs[name]; !changes || of != spec {
		return nil
	}
	return b.offered.Whole
}

// parts returns what an instance with this spec is built from.
func (b *Builder) parts(spec supervisor.Spec) (*connection.Connection, *election.Term, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	conn := b.connection
	if b.offered != nil && b.offered.Connection.Generation() == spec.Clients {
		conn = b.offered.Connection
	}
	if conn == nil || conn.Generation() != spec.Clients {
		return nil, nil, errOutdated
	}
	if spec.Term == 0 {
		return conn, election.Always(), conn.Acquire()
	}
	term := b.terms.Term(spec.Term)
	if term == nil {
		return nil, nil, errOutdated
	}
	return conn, term, conn.Acquire()
}

// barrierOf returns what a controller waits for before it begins.
func (b *Builder) barrierOf(d controller.Descriptor) *takeover.Barrier {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.terms.BarrierOf(d.Name)
}

// eventFence refuses events of a controller while this process does not hold its lock. Unlike
// the fence of an instance it does not close when one instance is replaced by the next.
type eventFence struct {
	builder    *Builder
	descriptor controller.Descriptor
}

var errNotLeading = errors.New("this process is not the leader")

func (f eventFence) term() *election.Term {
	if f.descriptor.RunsWithoutLease {
		return election.Always()
	}
	f.builder.mu.Lock()
	defer f.builder.mu.Unlock()
	return f.builder.terms.OfController(f.descriptor.Name)
}

// Err implements clients.Fence.
func (f eventFence) Err() error {
	if t := f.term(); t != nil {
		return t.Err()
	}
	return errNotLeading
}

// Done implements clients.Fence.
func (f eventFence) Done() <-chan struct{} {
	if t := f.term(); t != nil {
		return t.Done()
	}
	down := make(chan struct{})
	close(down)
	return down
}

// Deadline implements clients.Fence.
func (f eventFence) Deadline() (time.Time, bool) {
	if t := f.term(); t != nil {
		return t.Deadline()
	}
	return time.Time{}, false
}

// Build implements supervisor.Builder.
func (b *Builder) Build(d controller.Descriptor, spec supervisor.Spec, failed func(error)) (supervisor.Instance, error) {
	o := informers.ScopeOptions{Name: d.Name, OnPanic: failed}
	if barrier := b.barrierOf(d); barrier != nil {
		o.Barrier = barrier
	}
	i, err := b.make(d, spec, o)
	if err != nil || i.controller == nil {
		return nil, err
	}
	return i, nil
}

// Warm implements supervisor.Builder. It builds an instance on a scope that calls no
// handlers, so that exactly the caches the controller would use are kept filled, or none
// with a cold spec.
func (b *Builder) Warm(d controller.Descriptor, spec supervisor.Spec) (func(), error) {
	i, err := b.make(d, spec, informers.ScopeOptions{Name: d.Name, Dry: true})
	if err != nil || i.controller == nil {
		return func() {}, err
	}
	if spec.Cold {
		i.Close()
		return func() {}, nil
	}
	i.scope.StartWithContext(context.Background())
	return i.Close, nil
}

func (b *Builder) make(d controller.Descriptor, spec supervisor.Spec, o informers.ScopeOptions) (*instance, error) {
	conn, term, err := b.parts(spec)
	if err != nil {
		return nil, err
	}
	o.Whole = b.whole(d.Name, spec)
	i := &instance{
		builder:    b,
		descriptor: d,
		connection: conn,
		scope:      conn.Informers().NewScope(o),
		fence:      clients.NewFence(),
		metrics:    telemetry.NewRegistry(),
		recorder:   &events.Recorder{},
		pauses:     b.pauses.Of(d.Name),
		deletions:  b.deletionsBy(d),
		changed:    make(chan struct{}, 1),
	}
	if err := i.build(spec, term); err != nil {
		i.Close()
		return nil, err
	}
	if i.controller == nil {
		i.Close()
	}
	return i, nil
}

// deletionsBy returns the deletions of a controller, which count if it deletes in bulk.
func (b *Builder) deletionsBy(d controller.Descriptor) *controller.Deletions {
	if !d.DeletesInBulk {
		return &controller.Deletions{}
	}
	return controller.DeletionsBy(d.Name, b.breaker)
}

func identity(d controller.Descriptor, pauses *controller.Pauses) clients.Identity {
	return clients.Identity{
		Name:           d.Name,
		ServiceAccount: d.ServiceAccount,
		ClientName:     d.ClientName,
		Limits:         d.Limits,
		Pauses:         pauses,
	}
}

// eventSink returns how the events of a controller are written. It outlives the instances of the controller, and holds
// none of them.
func (b *Builder) eventSink(d controller.Descriptor, conn *connection.Connection) func() (corev1client.EventsGetter, error) {
	return func() (corev1client.EventsGetter, error) {
		set, err := conn.Clients().For(identity(d, b.pauses.Of(d.Name)), eventFence{b, d})
		if err != nil {
			return nil, err
		}
		return set.Kubernetes.CoreV1(), nil
	}
}
