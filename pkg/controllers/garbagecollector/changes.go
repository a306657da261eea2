package garbagecollector

import (
	"context"

	"k8s.io/klog/v2"
)

// deliver enqueues a change for the graph. It blocks while too many are queued.
func (c *collector) deliver(ch *change) {
	select {
	case c.slots <- struct{}{}:
		c.changeQueue.Add(ch) // one lane keeps the order
	case <-c.stopped:
	}
}

func (c *collector) change(ctx context.Context, ch *change) error {
	select {
	case <-c.slots:
	default: // the slot of a retry was already released
	}
	c.apply(ctx, ch)
	if ch.done != nil {
		ch.done()
	}
	return nil
}

// apply applies a change to the graph and enqueues the resulting nodes.
func (c *collector) apply(ctx context.Context, ch *change) {
	e := c.graph.apply(ch)
	for _, n := range e.attempt {
		c.attempt.add(ch.lane, n)
	}
	for _, d := range e.later {
		c.attempt.addAfter(d.node, d.after)
	}
	for _, n := range e.orphan {
		c.orphan.add(ch.lane, n)
	}
	for _, ref := range e.invalid {
		klog.FromContext(ctx).V(2).Info("Owner reference into another namespace", "object", ref.dependent, "owner", ref.owner)
		c.Record(ownerInOtherNamespace(ref))
	}
}
