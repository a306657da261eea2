package tainteviction

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
)

// gap is how long nobody may have watched for appointments to be continued. In a longer time, a
// taint may have gone and come again without anybody noticing.
const gap = 10 * time.Second

// handover is what an instance leaves to the next.
type handover struct {
	appointments map[types.NamespacedName]appointment
	left         time.Time
}

// HandOver implements controller.HandsOver: without the appointments, pods would be evicted later.
func (c *evictionController) HandOver() handover {
	return handover{c.appointments.state(), c.Clock.Now()}
}

// begin continues the appointments of the predecessor, and judges all pods on nodes with taints,
// whose time may have been counted before.
func (c *evictionController) begin(ctx context.Context) error {
	now := c.Clock.Now()
	left, ok := controller.TakeOver(c.Env, c)
	if ok && now.Sub(left.left) <= gap {
		c.takeOver(left.appointments)
	}
	for _, key := range slices.Collect(maps.Keys(c.appointments.state())) {
		if err := c.judgePod(ctx, key, now, foundAtStart); err != nil {
			return err
		}
	}
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, node := range slices.DeleteFunc(nodes, func(n *corev1.Node) bool { return !evicts(n) }) {
		if err := c.judgePodsOn(ctx, node.Name, now, foundAtStart); err != nil {
			return err
		}
	}
	return nil
}

// takeOver makes appointments that were made by the predecessor.
func (c *evictionController) takeOver(left map[types.NamespacedName]appointment) {
	c.appointments.mu.Lock()
	defer c.appointments.mu.Unlock()
	for key, made := range left {
		c.appointments.set(key, made)
		c.evictLater(identity{key, made.uid}, made.due)
	}
}
