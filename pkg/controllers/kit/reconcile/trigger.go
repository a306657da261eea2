package reconcile

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Event is what happened to an object. It explains why a key was queued.
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
	event           Event
	namespace, name string
	// objectType is the Go type of the object, metadataOf the kind of one that is metadata only.
	objectType reflect.Type
	metadataOf string
}

// Because returns the lane with what happened to an object as the reason.
func (l Lane) Because(event Event, obj metav1.Object) Lane {
	l.trigger = trigger{event: event, namespace: obj.GetNamespace(), name: obj.GetName()}
	if partial, ok := obj.(*metav1.PartialObjectMetadata); ok {
		l.trigger.metadataOf = partial.Kind
	} else {
		l.trigger.objectType = reflect.TypeOf(obj)
	}
	return l
}

// Gone is the fresh lane for the keys that the deletion of an object concerns.
func Gone(obj metav1.Object) Lane { return Fresh.Because(Deleted, obj) }

// objects are what the types of API objects implement.
var objects = reflect.TypeFor[runtime.Object]()

// kind is that of the object, which objects of a Go type do not say themselves.
func (t trigger) kind() string {
	switch {
	case t.metadataOf != "":
		return t.metadataOf
	case t.objectType == nil || t.objectType.Kind() != reflect.Pointer || !t.objectType.Implements(objects):
		return "object"
	}
	return t.objectType.Elem().Name()
}

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
	if t.namespace == "" {
		return t.kind() + " " + t.name
	}
	return t.kind() + " " + t.namespace + "/" + t.name
}

// concernsNewObject reports whether the object of a key is another one than before, or gone, as far as names tell. If
// an object of another kind has that name, the next retry of the key comes too early, and no more.
func (t trigger) concernsNewObject(key any) bool {
	if t.event != Added && t.event != Deleted {
		return false
	}
	text := keyText(key)
	return text == t.name && t.namespace == "" || text == t.namespace+"/"+t.name
}
