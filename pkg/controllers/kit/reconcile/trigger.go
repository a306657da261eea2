package reconcile

import (
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Event is what happened to an object, for whom asks why a key was queued.
type Event int

const (
	// Unknown: the controller did not say.
	Unknown Event = iota
	// Added: the object is new.
	Added
	// Updated: the object changed.
	Updated
	// Deleted: the object is gone.
	Deleted
	// Replayed: the object was in the cache when the controller started.
	Replayed
	// Resynced: the object did not change; its resync was due.
	Resynced
	// Timer: the controller set a time for the key.
	Timer
	// Retry: the key failed.
	Retry
)

// trigger is why a key was queued. It holds names only: the object it is about may be replaced
// in the cache while the key waits.
type trigger struct {
	event                 Event
	kind, namespace, name string
}

// Because returns the lane with what happened to an object as the reason.
func (l Lane) Because(event Event, obj metav1.Object) Lane {
	l.trigger = trigger{event: event, kind: kindOf(obj), namespace: obj.GetNamespace(), name: obj.GetName()}
	return l
}

// Gone is the fresh lane for the keys that the deletion of an object concerns.
func Gone(obj metav1.Object) Lane { return Fresh.Because(Deleted, obj) }

// kindOf is the kind of an object, which objects of a Go type do not say themselves.
func kindOf(obj metav1.Object) string {
	if partial, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return partial.Kind
	}
	t := reflect.TypeOf(obj)
	if kind, found := kinds.Load(t); found {
		return kind.(string)
	}
	kind := ""
	if _, ok := obj.(runtime.Object); ok && t.Kind() == reflect.Pointer {
		kind = t.Elem().Name()
	}
	kinds.Store(t, kind)
	return kind
}

// kinds are the kinds of types seen before, since the name of a type is slow to find. All notifications
// ask.
var kinds sync.Map // reflect.Type to string

// String is the trigger as the status shows it.
func (t trigger) String() string {
	switch t.event {
	case Added:
		return t.object() + " added"
	case Updated:
		return t.object() + " updated"
	case Deleted:
		return t.object() + " deleted"
	case Replayed:
		return "start"
	case Resynced:
		return "resync"
	case Timer:
		return "timer"
	case Retry:
		return "retry"
	}
	return ""
}

func (t trigger) object() string {
	kind := t.kind
	if kind == "" {
		kind = "object"
	}
	if t.namespace == "" {
		return kind + " " + t.name
	}
	return kind + " " + t.namespace + "/" + t.name
}

// delay is a key that is added later.
type delay struct {
	due   time.Time
	event Event // Timer or Retry
}
