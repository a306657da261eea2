package attachdetach

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The names of operations, as in metrics.
const (
	attaching = "volume_attach"
	detaching = "volume_detach"
	verifying = "verify_volumes_are_attached_per_node"
)

const (
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = 2*time.Minute + 2*time.Second
)

// operation is an attach or a detach that runs or has failed. It has a goroutine only while a request
// is sent: until a VolumeAttachment changes it is just remembered.
type operation struct {
	// key is the node whose operations exclude each other, empty for all nodes of the volume.
	key string
	// attach and detach are the failures since an operation of the entry succeeded. Each has a backoff of its own:
	// a detach from one node and an attach to another one would end each other's otherwise.
	attach, detach failure

	// running is set while the operation runs; what follows describes it. what is the volume as it was known when the
	// operation began.
	running bool
	kind    string
	node    string
	what    identified
	begun   time.Time
	pods    []podRef // which get an event when an attach ends
	device  string   // the path that a FlexVolume has on the node
	// waiting is set once the requests were sent. The operation then waits for the VolumeAttachment,
	// which is the one of the UID if that is known.
	waiting bool
	since   time.Time
	uid     types.UID
}

// failure is the last of consecutive failures. The zero value is none.
type failure struct {
	at      time.Time
	backoff time.Duration
}

// wait is the time until the next attempt, 0 if it may be made now.
func (f failure) wait(now time.Time) time.Duration {
	return max(0, f.backoff-now.Sub(f.at)+1)
}

// failure returns the failure of the attaches or of the detaches.
func (o *operation) failure(kind string) *failure {
	if kind == attaching {
		return &o.attach
	}
	return &o.detach
}

// matching returns the operation that excludes others of a key: one of the same key, or of all nodes.
// One that runs comes first, then one of just that key.
func (v *volume) matching(key string) *operation {
	var found *operation
	rank := func(o *operation) int {
		switch {
		case o == nil:
			return 0
		case o.running:
			return 3
		case o.key == key:
			return 2
		}
		return 1
	}
	for _, o := range v.operations {
		if (o.key == key || o.key == "" || key == "") && rank(o) > rank(found) {
			found = o
		}
	}
	return found
}

// running returns the operation that runs on a node, nil if there is none.
func (v *volume) running(node string) *operation {
	for _, o := range v.operations {
		if o.running && o.node == node {
			return o
		}
	}
	return nil
}

// backoff is the time until a failed operation of a key may be tried again, 0 if none has failed.
func (v *volume) backoff(key, kind string, now time.Time) time.Duration {
	if o := v.matching(key); o != nil && !o.running {
		return o.failure(kind).wait(now)
	}
	return 0
}

// start begins an operation unless another one excludes it, or it is too early to try it again. One that has
// failed is tried in the entry it has.
func (v *volume) start(key, kind string, now time.Time) (*operation, bool) {
	o := v.matching(key)
	switch {
	case o == nil:
		o = &operation{}
		v.operations = append(v.operations, o)
	case o.running, o.failure(kind).wait(now) > 0:
		return nil, false
	}
	*o = operation{key: key, attach: o.attach, detach: o.detach, running: true, kind: kind, begun: now}
	return o, true
}

// end ends an operation that runs. One that has failed is remembered for its backoff.
func (v *volume) end(o *operation, err error, now time.Time) {
	if err == nil {
		v.operations = slices.DeleteFunc(v.operations, func(other *operation) bool { return other == o })
		return
	}
	last := o.failure(o.kind)
	*last = failure{now, min(max(2*last.backoff, firstBackoff), lastBackoff)}
	*o = operation{key: o.key, attach: o.attach, detach: o.detach}
}
