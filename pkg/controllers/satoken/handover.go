package satoken

import (
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// handover is what an instance hands over: the token Secrets it knew.
type handover struct{ secrets []key }

// HandOver implements controller.HandsOver.
func (c *tokenController) HandOver() handover { return handover{secrets: c.known.keys()} }

// takeOver enqueues every Secret that the predecessor knew. Those that still exist are queued
// already, because they were replayed; those deleted in between would be missed.
func (c *tokenController) takeOver() {
	left, ok := controller.TakeOver(c.Env, c)
	if !ok {
		return
	}
	for _, k := range left.secrets {
		c.known.addOlder(k)
		c.queue.Enqueue(reconcile.Backlog, k)
	}
}
