package runtime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/takeover"
	"kcmd.dev/pkg/runtime/telemetry"
)

// instance is one built controller and everything it holds. It implements
// supervisor.Instance.
type instance struct {
	controller controller.Controller
	descriptor controller.Descriptor
	connection *connection
	scope      *informers.Scope
	fence      *clients.ManualFence
	metrics    *telemetry.Registry
	hub        *telemetry.Hub
	recorder   *lateRecorder
	memory     *handOvers
	clock      clock.WithTicker
	sink       func() (corev1client.EventsGetter, error)

	predecessor atomic.Pointer[any]

	mu    sync.Mutex
	loops []controller.Inspectable
}

// builder makes instances for the supervisor, from what is in force at the moment.
type builder struct {
	hub    *telemetry.Hub
	clock  clock.WithTicker
	memory handOvers

	mu         sync.Mutex
	connection *connection
	offered    *offer // nil unless a change is being prepared
	terms      terms
}

// terms are those in which this process holds locks.
type terms struct {
	byNumber     map[uint64]*election.Term
	byController map[string]*election.Term
	// barriers are what controllers wait for before they begin; nil for nothing.
	barriers map[string]*takeover.Barrier
}

var errOutdated = errors.New("the process has moved on since")

// use sets what instances are built from.
func (b *builder) use(c *connection, t terms) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.connection, b.terms, b.offered = c, t, nil
}

// offer is what instances are built from that belong to a change which is being prepared.
type offer struct {
	// connection is for those whose spec is of it.
	connection *connection
	// whole says what is cached whole once the change is made.
	whole func(schema.GroupVersionResource) bool
}

// offer has instances built from something else until use is called, or nil takes it back.
// Nothing changes for those that there are.
func (b *builder) offer(o *offer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.offered = o
}

// whole says what is cached whole by all controllers together; nil means as in force.
func (b *builder) whole() func(schema.GroupVersionResource) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.offered == nil {
		return nil
	}
	return b.offered.whole
}

// parts returns what an instance with this spec is built from.
func (b *builder) parts(spec supervisor.Spec) (*connection, *election.Term, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	conn := b.connection
	if b.offered != nil && b.offered.connection.generation == spec.Clients {
		conn = b.offered.connection
	}
	if conn == nil || conn.generation != spec.Clients {
		return nil, nil, errOutdated
	}
	if spec.Term == 0 {
		return conn, election.Always(), conn.acquire()
	}
	term := b.terms.byNumber[spec.Term]
	if term == nil {
		return nil, nil, errOutdated
	}
	return conn, term, conn.acquire()
}

// barrierOf is what a controller waits for before it begins.
func (b *builder) barrierOf(d controller.Descriptor) *takeover.Barrier {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.terms.barriers[d.Name]
}

// eventFence refuses events of a controller while this process does not hold its lock.
// Unlike the fence of an instance it does not fall when one instance is replaced by the
// next.
type eventFence struct {
	builder    *builder
	descriptor controller.Descriptor
}

var errNotLeading = errors.New("this process does not lead")

func (f eventFence) term() *election.Term {
	if f.descriptor.RunsWithoutLease {
		return election.Always()
	}
	f.builder.mu.Lock()
	defer f.builder.mu.Unlock()
	return f.builder.terms.byController[f.descriptor.Name]
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
func (b *builder) Build(d controller.Descriptor, spec supervisor.Spec, failed func(error)) (supervisor.Instance, error) {
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
func (b *builder) Warm(d controller.Descriptor, spec supervisor.Spec) (func(), error) {
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

func (b *builder) make(d controller.Descriptor, spec supervisor.Spec, o informers.ScopeOptions) (*instance, error) {
	conn, term, err := b.parts(spec)
	if err != nil {
		return nil, err
	}
	o.Whole = b.whole()
	i := &instance{
		descriptor: d,
		connection: conn,
		scope:      conn.informers.NewScope(o),
		fence:      clients.NewFence(),
		metrics:    telemetry.NewRegistry(),
		hub:        b.hub,
		recorder:   &lateRecorder{},
		memory:     &b.memory,
		clock:      b.clock,
		sink:       func() (corev1client.EventsGetter, error) { return eventSink(conn, d, b) },
	}
	if err := i.build(spec.Value, term, b.clock); err != nil {
		i.Close()
		return nil, err
	}
	if i.controller == nil {
		i.Close()
	}
	return i, nil
}

func identity(d controller.Descriptor) clients.Identity {
	return clients.Identity{
		Name:           d.Name,
		ServiceAccount: d.ServiceAccount,
		ClientName:     d.ClientName,
		Limits:         clients.LimitFactors{QPS: d.Limits.QPS, Burst: d.Limits.Burst},
	}
}

func eventSink(conn *connection, d controller.Descriptor, b *builder) (corev1client.EventsGetter, error) {
	set, err := conn.clients.For(identity(d), eventFence{b, d})
	if err != nil {
		return nil, err
	}
	return set.Kubernetes.CoreV1(), nil
}

// build makes the controller. A panic of its New is an error like any other: what the
// instance holds is released, on a standby too.
func (i *instance) build(value any, term *election.Term, clk clock.WithTicker) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic while building: %v\n%s", v, debug.Stack())
		}
	}()
	fence := clients.Fences(i.fence, term)
	set, err := i.connection.clients.For(identity(i.descriptor), fence)
	if err != nil {
		return fmt.Errorf("making clients: %w", err)
	}
	i.controller, err = i.descriptor.New(controller.Env{
		Name:        i.descriptor.Name,
		Client:      set.Kubernetes,
		Metadata:    set.Metadata,
		Dynamic:     set.Dynamic,
		Discovery:   set.Discovery,
		RESTConfig:  set.Config,
		Mapper:      i.connection.catalog.Mapper(),
		ClusterCA:   i.connection.clusterCA(),
		Served:      i.connection.catalog.Preferred,
		Informers:   i.scope,
		Events:      i.recorder,
		Metrics:     i.metrics,
		Clock:       clk,
		Fenced:      fence.Done(),
		Predecessor: i.handedOver,
		Inspect:     i.inspect,
	}, value)
	return err
}

func (i *instance) inspect(loop controller.Inspectable) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.loops = append(i.loops, loop)
}

func (i *instance) handedOver() any {
	if p := i.predecessor.Load(); p != nil {
		return *p
	}
	return nil
}

// Run implements supervisor.Instance.
func (i *instance) Run(ctx context.Context, predecessor any) error {
	if i.descriptor.EventSource != "" {
		recorder, err := i.connection.events.open(i.descriptor.Name, i.descriptor.EventSource, i.sink)
		if err != nil {
			return err
		}
		i.recorder.connect(recorder)
	}
	i.predecessor.Store(&predecessor)
	i.hub.Attach(i.metrics)
	if i.memory.begin(i.descriptor.Name, i.connection.generation) {
		catchUp := i.connection.catchUp(ctx, i.clock)
		defer catchUp.End()
		i.scope.AddBarrier(catchUp)
	}
	i.scope.StartWithContext(ctx)
	return i.controller.Run(ctx)
}

// HandOver implements supervisor.Instance.
func (i *instance) HandOver() any {
	var left any
	if h, ok := i.controller.(controller.HandsOver); ok {
		left = h.HandOver()
	}
	i.memory.end(i.descriptor.Name)
	return left
}

// DebuggingHandler implements supervisor.Instance.
func (i *instance) DebuggingHandler() http.Handler {
	if d, ok := i.controller.(controller.Debuggable); ok {
		return d.DebuggingHandler()
	}
	return nil
}

// Fence implements supervisor.Instance.
func (i *instance) Fence(cause error) { i.fence.Close(cause) }

// Close implements supervisor.Instance.
func (i *instance) Close() {
	i.fence.Close(errors.New("the instance is closed"))
	i.hub.Detach(i.metrics)
	// First: the scope waits for handlers, and one that hangs must not keep a connection
	// that nobody needs.
	i.connection.release()
	i.scope.Close()
}

// SetResync implements supervisor.Instance.
func (i *instance) SetResync(period time.Duration) { i.scope.SetResyncPeriod(period) }

// handlerPatience is how long an event handler may take before it is shown.
const handlerPatience = time.Second

// Loops implements supervisor.Instance.
func (i *instance) Loops() []controller.LoopStatus {
	i.mu.Lock()
	defer i.mu.Unlock()
	statuses := make([]controller.LoopStatus, 0, len(i.loops))
	for _, l := range i.loops {
		statuses = append(statuses, l.Inspect())
	}
	if waiting := i.scope.Waiting(); len(waiting) > 0 {
		statuses = append(statuses, controller.LoopStatus{Queue: "caches", Waiting: strings.Join(waiting, "; ")})
	}
	if busy := i.scope.Busy(handlerPatience); len(busy) > 0 {
		statuses = append(statuses, controller.LoopStatus{Queue: "event handlers", InFlight: busy})
	}
	return statuses
}
