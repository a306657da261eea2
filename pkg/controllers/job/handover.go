package job

import "kcmd.dev/pkg/controllers/kit/writes"

// handover is the state that an instance hands over to the next.
type handover struct {
	writes writes.State
	memory memoryState
}

// HandOver implements controller.HandsOver: the successor must neither count a pod again nor
// act before its caches show what this instance wrote, and it continues the backoff of failed
// pods.
func (c *jobController) HandOver() handover {
	return handover{writes: c.owners.Writes.HandOver(), memory: c.memory.handOver()}
}

// takeOver adds the state of the predecessor. There is no event for a Job that was deleted in between:
// a reconcile drops its state. That comes late, because a cache that was just filled may be older
// than the Job.
func (c *jobController) takeOver(left handover) {
	c.owners.Writes.TakeOver(left.writes)
	c.memory.takeOver(left.memory)
	for job := range left.memory.jobs() {
		c.owners.Queue.AddAfter(job, writes.Timeout)
	}
}
