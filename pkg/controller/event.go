package controller

import (
	"context"
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

// RecordFailure is Record for the failure of a request that was sent with a context. A request that was cut off because
// the instance ends says nothing about the object: then there is no event.
func (e Env) RecordFailure(ctx context.Context, event Event) {
	select {
	case <-ctx.Done():
	case <-e.Fenced: // a client without contexts may fail before the end of the context is seen
	default:
		e.Record(event)
	}
}
