package supervisor

import (
	"context"
	"errors"
	"net/http"
	"runtime/pprof"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
)

// Spec is what an instance is made from. Instances with equal specs are
// interchangeable, so a controller whose spec did not change is left alone.
type Spec struct {
	// Planned is what the controller depends on in the configuration: with the Plan of an
	// edit, it determines whether the edit replaces the instance. The other fields do not come
	// from the configuration.
	Planned plan.Spec
	// Files is a fingerprint of the contents of the files the value names.
	Files string
	// Chosen is the one of the alternatives of the controller that is served.
	Chosen schema.GroupVersionResource
	// Clients is the generation of the clients and caches of the process.
	Clients uint64
	// Term is the leadership term under which the instance may write; 0 for
	// controllers that run without a lease.
	Term uint64
	// Served is the generation of what the API server serves, for a standby whose caches
	// depend on that; 0 for everything else.
	Served uint64
	// Cold is set if a standby keeps no caches: then Warm only checks that an instance can be
	// built.
	Cold bool
}

// Instance is one built controller with everything it holds.
type Instance interface {
	// Run starts what the instance needs and blocks in the controller's Run.
	// predecessor is what the previous instance handed over.
	Run(ctx context.Context, predecessor any) error
	// HandOver returns what the successor needs, and whether that is of the predecessor and passed on. It is called
	// after Run returned.
	HandOver() (left any, passedOn bool)
	// Fence refuses and cancels all writes of the instance from now on.
	Fence(cause error)
	// Close releases everything the instance holds. It is called once: after Run returned,
	// instead of Run, or when an instance that does not stop is abandoned. It may have to
	// wait for an event handler.
	Close()
	// SetResync changes the resync period of the handlers.
	SetResync(time.Duration)
	// DebuggingHandler is what the controller shows of itself, nil if nothing.
	DebuggingHandler() http.Handler
	// Loops are the work loops of the instance.
	Loops() []controller.LoopStatus
	// Keys are what the loops hold of the keys whose text is wanted.
	Keys(wanted func(key string) bool) []controller.LoopKey
}

// Builder makes instances. It is the supervisor's only view of the rest of the process.
type Builder interface {
	// Build makes an instance. It returns nil and no error if there is nothing to
	// run with this spec. failed is to be called, at most once, if the instance
	// cannot go on for a reason that does not show in Run.
	Build(d controller.Descriptor, spec Spec, failed func(error)) (Instance, error)
	// Warm keeps the caches filled that an instance would read, without running anything. It
	// fails if an instance could not be built.
	Warm(d controller.Descriptor, spec Spec) (release func(), err error)
}

// errEnded is the error of a Run that returned before it was asked to.
var errEnded = errors.New("the controller returned without being stopped")

// running is an instance whose Run was called.
type running struct {
	Instance
	view    *view
	cancel  context.CancelCauseFunc
	done    chan struct{}
	failed  chan error // reports of the handlers, see Builder
	err     error      // why Run returned; valid after done is closed
	panics  bool
	started time.Time
}

// start calls Run in a goroutine of its own. The goroutine and all it starts carry the
// controller's name as a profiler label, so that stacks and profiles can be told apart.
func start(ctx context.Context, name string, i Instance, failed chan error, predecessor any, now time.Time) *running {
	ctx, cancel := context.WithCancelCause(ctx)
	r := &running{Instance: i, view: newView(now), cancel: cancel, done: make(chan struct{}), failed: failed, started: now}
	go pprof.Do(ctx, pprof.Labels("controller", name), func(ctx context.Context) {
		defer close(r.done)
		r.err = r.runGuarded(ctx, predecessor)
	})
	return r
}

func (r *running) runGuarded(ctx context.Context, predecessor any) (err error) {
	if panicked := concurrent.Catch(func() { err = r.Run(ctx, predecessor) }); panicked != nil {
		r.panics = true
		return panicked
	}
	return err
}
