package runtime

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"kcmd.dev/pkg/runtime/clients"
)

// eventVerbosity is the log level at which controllers' events are logged too.
const eventVerbosity = 3

// pipelines holds one event pipeline per controller. A pipeline outlives the instances
// that use it: the events of a stopped instance are still delivered, and repeated events
// of a controller that was restarted are still counted as repeated.
type pipelines struct {
	ctx context.Context

	mu     sync.Mutex
	byName map[string]*pipeline
	closed bool

	flushing flushes
}

// pipeline delivers the events of one source.
type pipeline struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

// newPipelines makes an empty set. Deliveries are given up when ctx ends.
func newPipelines(ctx context.Context) *pipelines {
	return &pipelines{ctx: ctx, byName: map[string]*pipeline{}}
}

// open returns the recorder of a source, and starts its pipeline if there is none.
func (p *pipelines) open(name, source string, sink func() (corev1client.EventsGetter, error)) (record.EventRecorder, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if existing, ok := p.byName[name]; ok {
		return existing.recorder, nil
	}
	if p.closed {
		return nil, fmt.Errorf("opening events of %s: the process is shutting down", name)
	}
	events, err := sink()
	if err != nil {
		return nil, fmt.Errorf("opening events of %s: %w", name, err)
	}
	b := record.NewBroadcaster(record.WithContext(p.ctx))
	b.StartStructuredLogging(eventVerbosity)
	b.StartRecordingToSink(deliverable{&corev1client.EventSinkImpl{Interface: events.Events("")}, p})
	opened := &pipeline{broadcaster: b, recorder: b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: source})}
	p.byName[name] = opened
	return opened.recorder, nil
}

// close ends all pipelines.
func (p *pipelines) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, one := range p.byName {
		one.broadcaster.Shutdown()
	}
}

// lateRecorder is a recorder that is connected when its instance runs. What is recorded
// before that is dropped: an instance that only was built has nothing to tell.
type lateRecorder struct {
	to atomic.Pointer[record.EventRecorder]
}

func (l *lateRecorder) connect(r record.EventRecorder) { l.to.Store(&r) }

func (l *lateRecorder) Event(object k8sruntime.Object, eventtype, reason, message string) {
	if r := l.to.Load(); r != nil {
		(*r).Event(object, eventtype, reason, message)
	}
}

func (l *lateRecorder) Eventf(object k8sruntime.Object, eventtype, reason, messageFmt string, args ...any) {
	if r := l.to.Load(); r != nil {
		(*r).Eventf(object, eventtype, reason, messageFmt, args...)
	}
}

func (l *lateRecorder) AnnotatedEventf(object k8sruntime.Object, annotations map[string]string, eventtype, reason, messageFmt string, args ...any) {
	if r := l.to.Load(); r != nil {
		(*r).AnnotatedEventf(object, annotations, eventtype, reason, messageFmt, args...)
	}
}

// processEvents records events of the process itself over a connection.
func (c *connection) processEvents() (record.EventRecorder, error) {
	return c.events.open(component, component, func() (corev1client.EventsGetter, error) {
		set, err := c.clients.For(clients.Identity{Name: component, ClientName: component}, nil)
		if err != nil {
			return nil, err
		}
		return set.Kubernetes.CoreV1(), nil
	})
}
