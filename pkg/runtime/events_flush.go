package runtime

import (
	"errors"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/runtime/clients"
)

// reasonFlush marks an event that is not sent: when it comes to the end of a pipeline, all
// that was recorded before has been delivered or given up.
const reasonFlush = "Flush"

// flushes are the marks on their way through pipelines.
type flushes struct {
	mu      sync.Mutex
	last    int
	waiting map[types.UID]chan struct{}
}

// begin makes a mark, and the channel that is closed when it has arrived.
func (f *flushes) begin() (*corev1.ObjectReference, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	mark := &corev1.ObjectReference{Kind: reasonFlush, Name: reasonFlush, UID: types.UID(strconv.Itoa(f.last))}
	arrived := make(chan struct{})
	if f.waiting == nil {
		f.waiting = map[types.UID]chan struct{}{}
	}
	f.waiting[mark.UID] = arrived
	return mark, arrived
}

// arrived reports that an event is a mark, and tells who waits for it.
func (f *flushes) arrived(e *corev1.Event) bool {
	if e.Reason != reasonFlush || e.InvolvedObject.Kind != reasonFlush {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.waiting[e.InvolvedObject.UID]; ok {
		close(c)
		delete(f.waiting, e.InvolvedObject.UID)
	}
	return true
}

// deliverable is the end of a pipeline. It keeps marks to itself, and drops what may not be
// sent because the term is over: to try again, as pipelines do twelve times, ten seconds
// apart, would hold up all that is recorded later, also in the next term.
type deliverable struct {
	record.EventSink
	of *pipelines
}

// Create implements record.EventSink.
func (s deliverable) Create(e *corev1.Event) (*corev1.Event, error) {
	if s.of.flushing.arrived(e) {
		return e, nil
	}
	stored, err := s.EventSink.Create(e)
	return unlessFenced(e, stored, err)
}

// Patch implements record.EventSink.
func (s deliverable) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	stored, err := s.EventSink.Patch(e, data)
	return unlessFenced(e, stored, err)
}

// unlessFenced has an event whose fence is down pass for delivered.
func unlessFenced(e, stored *corev1.Event, err error) (*corev1.Event, error) {
	if !errors.Is(err, clients.ErrFenced) {
		return stored, err
	}
	klog.Background().V(2).Info("event dropped, the process does not hold the lease", "object", klog.KRef(e.InvolvedObject.Namespace, e.InvolvedObject.Name), "reason", e.Reason)
	return e, nil
}

// flush waits until what was recorded so far has been delivered, at most for a time.
func (p *pipelines) flush(limit time.Duration, clk clock.WithTicker) {
	p.mu.Lock()
	waiting := map[string]<-chan struct{}{}
	for name, one := range p.byName {
		mark, arrived := p.flushing.begin()
		one.recorder.Event(mark, corev1.EventTypeNormal, reasonFlush, "")
		waiting[name] = arrived
	}
	p.mu.Unlock()
	timer := clk.NewTimer(limit)
	defer timer.Stop()
	for name, arrived := range waiting {
		select {
		case <-arrived:
		case <-timer.C():
			klog.Background().Error(nil, "Events were not delivered in time and may be lost", "source", name, "waited", limit)
			return
		}
	}
}
