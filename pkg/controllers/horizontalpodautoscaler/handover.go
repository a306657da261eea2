package horizontalpodautoscaler

import (
	"context"
	"time"

	"kcmd.dev/pkg/controller"
)

// handover is what an instance hands over to the next.
type handover struct {
	selectors *selectors
	histories *histories
	at        time.Time // when the last evaluation had ended
}

// HandOver implements controller.HandsOver.
func (c *autoscalerController) HandOver() handover {
	return handover{selectors: c.selectors, histories: c.histories, at: c.Clock.Now()}
}

// begin takes over the predecessor's state of the autoscalers that still exist. The handlers
// have registered all of them by now, to be evaluated after a period; what has waited before
// counts, or an instance that is replaced within each period would never evaluate anything.
func (c *autoscalerController) begin(context.Context) error {
	defer c.pausesChanged()
	left, ok := controller.TakeOver(c.Env, c)
	if !ok {
		return nil
	}
	c.selectors.takeOver(left.selectors)
	for key, since := range c.histories.takeOver(left.histories) {
		c.queue.AddAfter(key, max(0, c.config.syncPeriod-c.Clock.Since(since)))
	}
	if c.Clock.Since(left.at) > c.config.syncPeriod {
		c.histories.interrupt()
	}
	return nil
}
