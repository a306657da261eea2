package nodelifecycle

import (
	"math"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/node/topology"
	nodeutil "k8s.io/component-helpers/node/util"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// excludeLabel, with any value, excludes a node from the state of its zone.
const excludeLabel = "node.kubernetes.io/exclude-disruption"

// record holds the state of one node, identified by its UID.
type record struct {
	name string
	uid  types.UID
	// node is the newest known state of the node, from the cache or from the response to a write.
	node *corev1.Node
	// wrote is the time of that response, zero if the state is from the cache.
	wrote time.Time

	// ready is the status of its Ready condition, empty if it has none.
	ready    corev1.ConditionStatus
	zone     string
	excluded bool // whether it does not count in the state of its zone

	// seen is when the last heartbeat was observed, or else when the node was first observed.
	seen         time.Time
	heartbeat    metav1.Time      // the last one in its Ready condition
	renewed      metav1.MicroTime // the last renewal of its Lease, zero if there was none
	leaseVersion string           // the resource version of that Lease
	isLeased     bool             // whether the cache has shown the Lease
	// fastest is the shortest time that a renewal took to be shown by the watch, by the clocks of the kubelet and of
	// this process. It is valid if isTimed.
	fastest time.Duration
	isTimed bool

	// registered reports whether the node was announced.
	registered bool
	// unknownPending reports whether the conditions of the node, which was ready, have become Unknown, and its pods were
	// not yet ordered to be marked for that. A heartbeat ends it.
	unknownPending bool
	// markOrder is the number of the newest order to mark the pods, some of which may still be shown as ready although
	// the node is silent. It is 0 if nothing has to be marked.
	markOrder int
	// came reports whether the node has come since the last pass, while the instance or its predecessor runs.
	came     bool
	eviction eviction
}

// eviction is the pending change to the taints of a node that evict its pods.
type eviction int

const (
	// none: no change is pending.
	none eviction = iota
	// waiting: the node waits in the queue of its zone for a taint.
	waiting
	// granted: the node may get the taint now.
	granted
	// stripped: the taints have to be removed, because no zone has a ready node.
	stripped
)

// show updates the record with a state of its node. It reports whether it has a heartbeat.
func (r *record) show(node *corev1.Node, now time.Time) (heartbeat bool) {
	r.node = node
	r.zone = topology.GetZoneKey(node)
	_, r.excluded = node.Labels[excludeLabel]
	ready := conditionOf(node, corev1.NodeReady)
	if ready == nil {
		r.ready = ""
		return false
	}
	heartbeat = r.ready == "" || !r.heartbeat.Equal(&ready.LastHeartbeatTime)
	r.ready, r.heartbeat = ready.Status, ready.LastHeartbeatTime
	if heartbeat {
		r.seen, r.unknownPending = now, false
	}
	return heartbeat
}

// isBehind reports whether the cached state of the node is older than the response to a recent write. The
// cache will catch up soon.
func (r *record) isBehind(cached *corev1.Node, now time.Time) bool {
	return !r.wrote.IsZero() && now.Sub(r.wrote) < writes.Timeout && isOlder(cached, r.node)
}

// isOlder returns false if the versions cannot be compared.
func isOlder(a, b *corev1.Node) bool { return controller.IsOlder(a.ResourceVersion, b.ResourceVersion) }

// renew notes a renewal that the Lease of the node shows, if it is a new one. The Lease may be nil. A kubelet whose
// clock was set back renews to a time before the last one: that is a renewal if the Lease is newer.
func (r *record) renew(lease *coordinationv1.Lease, now time.Time) {
	if lease == nil || lease.Spec.RenewTime == nil || r.renewed.Equal(lease.Spec.RenewTime) {
		return
	}
	if lease.Spec.RenewTime.Before(&r.renewed) && !controller.IsOlder(r.leaseVersion, lease.ResourceVersion) {
		return
	}
	r.renewed, r.leaseVersion, r.seen = *lease.Spec.RenewTime, lease.ResourceVersion, now
}

// lateness returns how much longer a renewal that the watch shows took to be observed than the fastest one of the node:
// a watch that is behind shows old renewals. Only differences count, since the clocks may differ, so that fastest can
// be negative. ok is false for the fastest one, which nothing can be compared with, and for a time that is centuries
// away.
func (r *record) lateness(renewed metav1.MicroTime, now time.Time) (late time.Duration, ok bool) {
	delay := now.Sub(renewed.Time)
	if delay.Abs() > maxDelay {
		return 0, false
	}
	if !r.isTimed || delay < r.fastest {
		r.fastest, r.isTimed = delay, true
		return 0, false
	}
	return delay - r.fastest, true
}

// maxDelay is more than clocks differ by, and so little that two delays can be subtracted.
const maxDelay = math.MaxInt64 / 2

// graceOf returns the grace period of a node.
func (c config) graceOf(r *record) time.Duration {
	if r.ready == "" {
		return c.startupGrace
	}
	return c.grace
}

// conditionOf returns a condition of a node, nil if it has none of the type.
func conditionOf(node *corev1.Node, is corev1.NodeConditionType) *corev1.NodeCondition {
	_, condition := nodeutil.GetNodeCondition(&node.Status, is)
	return condition
}
