package events

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
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

// pipeline delivers the events of one source.
type pipeline struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

// New makes an empty set. Deliveries are given up when ctx ends.
func New(ctx context.Context) *Pipelines {
	return &Pipelines{ctx: ctx, byName: map[string]*pipeline{}}
}

// Open returns the recorder of a source, and starts its pipeline if there is none.
func (p *Pipelines) Open(name, source string, sink func() (corev1client.EventsGetter, error)) (record.EventRecorder, error) {
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

// Close ends all pipelines.
func (p *Pipelines) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, one := range p.byName {
		one.broadcaster.Shutdown()
	}
}
