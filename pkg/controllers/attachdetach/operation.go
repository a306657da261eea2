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
	// name is that of the first operation of this entry, by which its backoff counts.
	name string

	// running operations are at node, and are about what was known of the volume when they began.
	running bool
	kind    string
	node    string
	what    identified
	begun   time.Time
	pods    []podRef // which are told how an attach ended
	device  string   // the path that a FlexVolume has on the node
	// waiting is set once the requests were sent. The operation then waits for the VolumeAttachment,
	// which is the one of the UID if that is known.
	waiting bool
	since   time.Time
	uid     types.UID

	// Not running, it has failed, and may be tried again after the backoff.
	failed  time.Time
	backoff time.Duration
}

// isBackingOff reports whether it is too early to try again.
func (o *operation) isBackingOff(now time.Time) bool {
	return !o.running && now.Sub(o.failed) <= o.backoff
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

// start begins an operation unless another one excludes it. One that has failed is tried again in
// the entry it has, which keeps its backoff and, once that is over, its name.
func (v *volume) start(key, name string, now time.Time) (*operation, bool) {
	o := v.matching(key)
	switch {
	case o == nil:
		o = &operation{name: name}
		v.operations = append(v.operations, o)
	case o.running:
		return nil, false
	case o.isBackingOff(now) && o.name == name:
		return nil, false
	case o.isBackingOff(now):
		o.name, o.backoff = name, 0
	}
	*o = operation{key: key, name: o.name, backoff: o.backoff, running: true, begun: now}
	return o, true
}

// end ends an operation that runs. One that has failed is remembered for its backoff.
func (v *volume) end(o *operation, err error, now time.Time) {
	if err == nil {
		v.operations = slices.DeleteFunc(v.operations, func(other *operation) bool { return other == o })
		return
	}
	backoff := min(max(2*o.backoff, firstBackoff), lastBackoff)
	*o = operation{key: o.key, name: o.name, failed: now, backoff: backoff}
}
