package events

import (
	"sync/atomic"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// recorder starts its pipeline when something is recorded.
type recorder struct{ *pipeline }

// Event implements record.EventRecorder.
func (l recorder) Event(object k8sruntime.Object, eventtype, reason, message string) {
	if r := l.recorder(); r != nil {
		r.Event(object, eventtype, reason, message)
	}
}

// Eventf implements record.EventRecorder.
func (l recorder) Eventf(object k8sruntime.Object, eventtype, reason, messageFmt string, args ...any) {
	if r := l.recorder(); r != nil {
		r.Eventf(object, eventtype, reason, messageFmt, args...)
	}
}

// AnnotatedEventf implements record.EventRecorder.
func (l recorder) AnnotatedEventf(object k8sruntime.Object, annotations map[string]string, eventtype, reason, messageFmt string, args ...any) {
	if r := l.recorder(); r != nil {
		r.AnnotatedEventf(object, annotations, eventtype, reason, messageFmt, args...)
	}
}

// Recorder is a recorder that is connected later, when its instance runs. What is recorded
// before that is dropped: an instance that was only built has nothing to report. The zero
// value is not connected.
type Recorder struct {
	to atomic.Pointer[record.EventRecorder]
}

// Connect passes what is recorded from now on to another recorder.
func (l *Recorder) Connect(r record.EventRecorder) { l.to.Store(&r) }

// Event implements record.EventRecorder.
func (l *Recorder) Event(object k8sruntime.Object, eventtype, reason, message string) {
	if r := l.to.Load(); r != nil {
		(*r).Event(object, eventtype, reason, message)
	}
}

// Eventf implements record.EventRecorder.
func (l *Recorder) Eventf(object k8sruntime.Object, eventtype, reason, messageFmt string, args ...any) {
	if r := l.to.Load(); r != nil {
		(*r).Eventf(object, eventtype, reason, messageFmt, args...)
	}
}

// AnnotatedEventf implements record.EventRecorder.
func (l *Recorder) AnnotatedEventf(object k8sruntime.Object, annotations map[string]string, eventtype, reason, messageFmt string, args ...any) {
	if r := l.to.Load(); r != nil {
		(*r).AnnotatedEventf(object, annotations, eventtype, reason, messageFmt, args...)
	}
}
