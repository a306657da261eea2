package job

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"kcmd.dev/pkg/controllers/kit/writes"
)

// handover is the state that an instance hands over to the next.
type handover struct {
	writes    writes.State
	backoffs  map[types.NamespacedName]memorized[backoffRecord]
	sightings map[types.NamespacedName]memorized[sightings]
	removals  map[types.NamespacedName]map[types.UID]removal
	missed    map[types.NamespacedName]map[types.UID]time.Time
	finished  map[types.NamespacedName]memorized[time.Time]
}

// HandOver implements controller.HandsOver: the successor must neither count a pod again nor
// act before its caches show what this instance wrote, and it continues the backoff of failed
// pods.
func (c *jobController) HandOver() handover {
	return handover{
		writes:    c.owners.Writes.HandOver(),
		backoffs:  c.backoffs.copy(),
		sightings: c.sightings.copy(),
		removals:  c.removals.copy(),
		missed:    c.missed.copy(),
		finished:  c.finished.copy(),
	}
}

// takeOver adds the state of the predecessor. No event tells of a Job that was deleted in between:
// a reconcile drops its state. That comes late, because a cache that was just filled may be older
// than the Job.
func (c *jobController) takeOver(left handover) {
	c.owners.Writes.TakeOver(left.writes)
	c.backoffs.takeOver(left.backoffs)
	c.sightings.takeOver(left.sightings)
	c.removals.takeOver(left.removals)
	c.missed.takeOver(left.missed)
	c.finished.takeOver(left.finished)
	for job := range left.jobs() {
		c.owners.Queue.AddAfter(job, writes.Timeout)
	}
}

// jobs are those of which there is state.
func (h handover) jobs() sets.Set[types.NamespacedName] {
	return sets.KeySet(h.backoffs).Union(sets.KeySet(h.sightings)).Union(sets.KeySet(h.removals)).
		Union(sets.KeySet(h.missed)).Union(sets.KeySet(h.finished))
}
