package events

import (
	"errors"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
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

// begin returns a mark, and a channel that is closed when it has arrived.
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

func isMark(e *corev1.Event) bool {
	return e.Reason == reasonFlush && e.InvolvedObject.Kind == reasonFlush
}

// abandon forgets marks that nobody waits for any more. Some never arrive: a broadcaster drops what it has no room for.
func (f *flushes) abandon(marks []types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, mark := range marks {
		delete(f.waiting, mark)
	}
}

// arrived notifies those who wait for a mark.
func (f *flushes) arrived(mark *corev1.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.waiting[mark.InvolvedObject.UID]; ok {
		close(c)
		delete(f.waiting, mark.InvolvedObject.UID)
	}
}

// deliverable is the end of a pipeline. It consumes marks, and drops what may not be sent
// because the term is over or the namespace paused: retrying, which pipelines do twelve times, ten seconds apart,
// would delay all later events, including those of the next term.
type deliverable struct {
	record.EventSink
	of     *Pipelines
	counts *counts
}

func newDeliverable(sink record.EventSink, of *Pipelines) deliverable {
	s := deliverable{EventSink: sink, of: of}
	s.counts = &counts{send: s.update}
	return s
}

// Create implements record.EventSink.
func (s deliverable) Create(e *corev1.Event) (*corev1.Event, error) {
	if isMark(e) {
		s.counts.deliver()
		s.of.flushing.arrived(e)
		return e, nil
	}
	stored, err := s.EventSink.Create(e)
	return unlessRefused(e, stored, err)
}

// Patch implements record.EventSink. The update is sent later, see [counts], when the pipeline may still read
// the event.
func (s deliverable) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	held := *e
	s.counts.hold(&held, data)
	return e, nil
}

// update sends an update of a stored event, which is created again if it has expired.
func (s deliverable) update(e *corev1.Event, data []byte) error {
	_, err := s.EventSink.Patch(e, data)
	if apierrors.IsNotFound(err) {
		e.ResourceVersion = ""
		_, err = s.EventSink.Create(e)
	}
	_, err = unlessRefused(e, nil, err)
	return err
}

// unlessRefused treats an event that may not be sent as delivered: its fence is closed, or its
// controller is paused in its namespace.
func unlessRefused(e, stored *corev1.Event, err error) (*corev1.Event, error) {
	because := ""
	switch {
	case errors.Is(err, clients.ErrFenced):
		because = "the process does not hold the lease"
	case controller.IsPaused(err):
		because = "the controller is paused in its namespace"
	default:
		return stored, err
	}
	klog.Background().V(2).Info("event dropped, "+because, "object", klog.KRef(e.InvolvedObject.Namespace, e.InvolvedObject.Name), "reason", e.Reason)
	return e, nil
}

// Flush waits until what was recorded so far has been delivered, at most for a time.
func (p *Pipelines) Flush(limit time.Duration, clk clock.WithTicker) {
	var marks []types.UID
	defer func() { p.flushing.abandon(marks) }()
	p.mu.Lock()
	waiting := map[string]<-chan struct{}{}
	for name, one := range p.byName {
		r := one.running.Load()
		if r == nil {
			continue // nothing was recorded
		}
		mark, arrived := p.flushing.begin()
		marks = append(marks, mark.UID)
		r.Event(mark, corev1.EventTypeNormal, reasonFlush, "")
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
