package controller

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Event is something that happened to an object, as users are shown it. A controller has a
// function for each of its events, all of them in its events.go.
type Event struct {
	About                 runtime.Object
	Type, Reason, Message string
}

// Normal makes an Event that requires no action.
func Normal(about runtime.Object, reason, format string, args ...any) Event {
	return Event{about, corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
}

// Warning makes an Event that may require action.
func Warning(about runtime.Object, reason, format string, args ...any) Event {
	return Event{about, corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...)}
}

// Record records an event as Descriptor.EventSource.
func (e Env) Record(event Event) {
	e.Events.Event(event.About, event.Type, event.Reason, event.Message)
}
