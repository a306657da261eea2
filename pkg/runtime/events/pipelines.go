package events

import (
	"context"
	"fmt"
	"runtime/pprof"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// eventVerbosity is the log level at which controllers' events are logged too.
const eventVerbosity = 3

// Pipelines holds the event pipelines of one connection, one per source. It can be used by
// several goroutines.
type Pipelines struct {
	ctx context.Context

	mu     sync.Mutex
	byName map[string]*pipeline
	closed bool

	flushing flushes
}

// pipeline delivers the events of one source. It starts with the first of them: it takes 64 KiB of queues
// and three goroutines, and most sources record nothing.
type pipeline struct {
	of     *Pipelines
	source string
	events corev1client.EventsGetter

	running atomic.Pointer[running] // nil before the first event
}

type running struct {
	record.EventRecorder
	broadcaster record.EventBroadcaster
	counts      *counts
}

func (r *running) stop() {
	r.broadcaster.Shutdown()
	r.counts.stop()
}

// New makes an empty set. Deliveries are given up when ctx ends.
func New(ctx context.Context) *Pipelines {
	return &Pipelines{ctx: ctx, byName: map[string]*pipeline{}}
}

// Open returns the recorder of a source. Sources of one name have one pipeline.
func (p *Pipelines) Open(name, source string, sink func() (corev1client.EventsGetter, error)) (record.EventRecorder, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if existing, ok := p.byName[name]; ok {
		return recorder{existing}, nil
	}
	if p.closed {
		return nil, fmt.Errorf("opening events of %s: the process is shutting down", name)
	}
	events, err := sink()
	if err != nil {
		return nil, fmt.Errorf("opening events of %s: %w", name, err)
	}
	opened := &pipeline{of: p, source: source, events: events}
	p.byName[name] = opened
	return recorder{opened}, nil
}

// recorder returns the recorder of a pipeline that runs, and starts it if it does not. It returns nil if
// the process shuts down.
func (l *pipeline) recorder() record.EventRecorder {
	if r := l.running.Load(); r != nil {
		return r
	}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if r := l.running.Load(); r != nil {
		return r
	}
	if l.of.closed {
		return nil
	}
	r := l.start()
	l.running.Store(r)
	return r
}

// start starts the goroutines of a pipeline. They outlive the recorder of the first event, and must not carry the
// profiler labels by which the goroutines of that instance are recognized.
func (l *pipeline) start() *running {
	started := make(chan *running)
	go func() {
		pprof.SetGoroutineLabels(l.of.ctx)
		b := record.NewBroadcaster(record.WithContext(l.of.ctx))
		logEvents(l.of.ctx, b)
		sink := newDeliverable(apiServer{l.events.Events("")}, l.of)
		b.StartRecordingToSink(sink)
		started <- &running{b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: l.source}), b, sink.counts}
	}()
	return <-started
}

// logEvents logs events as the library does, which would take marks for events.
func logEvents(ctx context.Context, b record.EventBroadcaster) {
	logger := klog.FromContext(ctx).V(eventVerbosity)
	b.StartEventWatcher(func(e *corev1.Event) {
		if isMark(e) {
			return
		}
		of := e.InvolvedObject
		logger.Info("Event occurred", "object", klog.KRef(of.Namespace, of.Name), "fieldPath", of.FieldPath, "kind", of.Kind,
			"apiVersion", of.APIVersion, "type", e.Type, "reason", e.Reason, "message", e.Message)
	})
}

// Close ends all pipelines.
func (p *Pipelines) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, one := range p.byName {
		if r := one.running.Load(); r != nil {
			r.stop()
		}
	}
}
