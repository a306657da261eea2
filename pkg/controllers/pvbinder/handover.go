package pvbinder

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
)

// handover is what an instance leaves to its successor. Everything else is in the API: the annotations and
// the phases of volumes and claims show the progress of each of them.
type handover struct {
	// failures block operations that have failed recently.
	failures map[string]failure
	// starts are when provisioning and deletions that have not been completed began.
	starts map[startKey]start
	// recycles are the pods at work. Without them, the successor would take such a pod for a remnant,
	// delete it, and mark the volume as Failed.
	recycles map[types.UID]recyclerPod
}

// recyclerPod is the pod that empties a volume.
type recyclerPod struct {
	volume, namespace, name string
	// uid is empty if the create had no answer, which may be executed until the time late.
	uid  types.UID
	late time.Time
	// claim is the UID of the claim that left the data.
	claim types.UID
}

// HandOver implements controller.HandsOver.
func (c *binderController) HandOver() handover {
	return handover{failures: c.operations.failures(), starts: c.timings.copied(), recycles: c.recycles.copied()}
}

// takeOver continues what the predecessor began.
func (c *binderController) takeOver() {
	left, ok := controller.TakeOver(c.Env, c)
	if !ok {
		return
	}
	c.operations.takeOver(left.failures)
	c.timings.takeOver(left.starts)
	c.timings.retain(c.volumes.uids().Union(c.claims.uids())) // the others went unnoticed
	c.recycles.takeOver(left.recycles)
	c.abandonRemnants()
}

// start is when an operation was first tried.
type start struct {
	at     time.Time
	plugin string
}
