package instance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/connection"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/events"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

// instance is one built controller and everything it holds. It implements
// supervisor.Instance.
type instance struct {
	builder    *Builder // what instances share
	controller controller.Controller
	descriptor controller.Descriptor
	connection *connection.Connection
	scope      *informers.Scope
	fence      *clients.ManualFence
	metrics    *telemetry.Registry
	recorder   *events.Recorder
	knows      bool // what its predecessor has written; set by Run
	pauses     *controller.Pauses
	deletions  *controller.Deletions
	changed    chan struct{} // see controller.Env.FilesChanged

	succession controller.Succession

	mu    sync.Mutex
	loops []controller.Inspectable
}

// build makes the controller. A panic of its New is an error like any other: what the
// instance holds is released, on a standby too.
func (i *instance) build(spec supervisor.Spec, term *election.Term) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic while building: %v\n%s", v, debug.Stack())
		}
	}()
	// Before New reads them, so that no change is missed.
	i.builder.followers.add(i.changed, i.descriptor.FollowedFiles(spec.Planned.Value))
	fence := clients.Fences(i.fence, term)
	id := identity(i.descriptor, i.pauses)
	id.Observer = i.builder.journal.Of(i.descriptor.Name, spec.Term)
	if i.descriptor.DeletesInBulk {
		id.Deletions, id.UnclearDeletion = i.deletions, i.builder.breaker.Unclear
	}
	set, err := i.connection.Clients().For(id, fence)
	if err != nil {
		return fmt.Errorf("creating clients: %w", err)
	}
	held := i.pauses
	if i.descriptor.ClusterScoped {
		held = &controller.Pauses{} // what its keys name is not what it writes
	}
	i.controller, err = i.descriptor.New(controller.Env{
		Name:       i.descriptor.Name,
		Client:     set.Kubernetes,
		Metadata:   set.Metadata,
		Dynamic:    set.Dynamic,
		Discovery:  set.Discovery,
		RESTConfig: set.Config,
		Mapper:     i.connection.Catalog().Mapper(),
		ClusterCA:  i.connection.ClusterCA(),
		Served:     i.connection.Catalog().Preferred,
		Chosen:     spec.Chosen,
		Informers:  i.scope,
		Events:     i.recorder,
		Metrics:    i.metrics,
		Clock:      i.builder.clock,
		Fenced:     fence.Done(),
		Succession: &i.succession,
		Pauses:     held,
		Deletions:  i.deletions,
		Inspect:    i.inspect,

		FilesChanged: i.changed,
	}, spec.Planned.Value)
	return err
}

func (i *instance) inspect(loop controller.Inspectable) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.loops = append(i.loops, loop)
}

// Run implements supervisor.Instance.
func (i *instance) Run(ctx context.Context, predecessor any) error {
	i.succession.Leave(predecessor)
	if i.descriptor.EventSource != "" {
		recorder, err := i.connection.Events().Open(i.descriptor.Name, i.descriptor.EventSource, i.builder.eventSink(i.descriptor, i.connection))
		if err != nil {
			return err
		}
		i.recorder.Connect(recorder)
	}
	i.builder.hub.Attach(i.metrics)
	if err := i.fence.Err(); err != nil { // abandoned before it began: nobody detaches the metrics any more
		i.builder.hub.Detach(i.metrics)
		return err
	}
	i.knows = true
	if i.builder.memory.begin(i.descriptor.Name, i.connection.Generation(), predecessor != nil) {
		i.knows = false
		catchUp := i.connection.CatchUp(ctx)
		defer catchUp.End()
		i.scope.AddBarrier(catchUp)
		defer func() { i.knows = i.scope.Ready() }()
	}
	i.scope.StartWithContext(ctx)
	return i.controller.Run(ctx)
}

// HandOver implements supervisor.Instance. What an instance leaves that never knew what its predecessor wrote is not
// all that its successor needs.
func (i *instance) HandOver() (left any, passedOn bool) {
	left = i.succession.HandOver()
	if i.knows {
		i.builder.memory.end(i.descriptor.Name, left != nil)
	}
	return left, !i.succession.TookOver()
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
	i.builder.followers.remove(i.changed)
	i.builder.hub.Detach(i.metrics)
	// This comes first: closing the scope waits for handlers, and one that hangs must not
	// keep a connection open.
	i.connection.Release()
	i.scope.Close()
}

// SetResync implements supervisor.Instance.
func (i *instance) SetResync(period time.Duration) { i.scope.SetResyncPeriod(period) }

// handlerPatience is how long an event handler may take before the status shows it.
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

// Keys implements supervisor.Instance.
func (i *instance) Keys(wanted func(string) bool) []controller.LoopKey {
	i.mu.Lock()
	loops := slices.Clone(i.loops)
	i.mu.Unlock()
	var all []controller.LoopKey
	for _, l := range loops {
		if holder, ok := l.(controller.KeyHolder); ok {
			all = append(all, holder.Keys(wanted)...)
		}
	}
	return all
}
