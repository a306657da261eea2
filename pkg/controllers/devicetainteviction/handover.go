package devicetainteviction

import (
	"context"
	"maps"
	"strings"

	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
)

// handover is the state that an instance passes to its successor.
type handover struct {
	appointments map[types.NamespacedName]appointment
	evicted      map[types.NamespacedName]types.UID
	counts       map[types.UID]int
}

// HandOver implements controller.HandsOver. Without the appointments, the next instance could not record
// events for evictions that were cancelled in the meantime.
func (c *evictionController) HandOver() handover {
	c.mu.Lock()
	defer c.mu.Unlock()
	return handover{c.appointments.copied(), maps.Clone(c.evicted), maps.Clone(c.counts)}
}

// begin adopts the state of the predecessor, finds all taints, and judges the pods that use devices with
// taints.
func (c *evictionController) begin(ctx context.Context) error {
	left, ok := controller.TakeOver(c.Env, c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun, c.logger = true, klog.FromContext(ctx)
	if err := c.beginRules(left.counts); err != nil {
		return err
	}
	if ok {
		c.takeOver(left)
	}
	for _, name := range c.slices.ListIndexFuncValues(taintedIndex) {
		driver, pool, _ := strings.Cut(name, "/")
		if found := c.taintsIn(poolKey{driver, pool}); len(found) > 0 {
			c.taints.pools[poolKey{driver, pool}] = found
		}
	}
	for key := range c.appointments.copied() {
		c.judge(key)
	}
	for key, pool := range c.taints.pools {
		for _, device := range pool.devices() {
			c.judgeUsers(c.claimsBy(index.Device(key.driver, key.pool, device)))
		}
	}
	for _, rule := range c.taints.rules {
		c.judgeUsers(c.selectedBy(rule))
	}
	return nil
}

// beginRules loads the rules that evict pods, and the counts of the rules that still exist. It enqueues
// the rules whose status may have to change. It does not enqueue a rule that evicts no pods if its status
// is for the current generation.
func (c *evictionController) beginRules(left map[types.UID]int) error {
	if c.rules == nil {
		return nil
	}
	rules, err := c.rules.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, rule := range rules {
		if n, ok := left[rule.UID]; ok {
			c.counts[rule.UID] = n
		}
		evicts := rule.Spec.Taint.Effect == resourcev1beta2.DeviceTaintEffectNoExecute
		if evicts {
			c.taints.rules[rule.Name] = rule
		}
		if evicts || !isCurrent(shownCondition(rule), rule) {
			c.queue.Add(keyOf(rule.Name, rule.UID))
		}
	}
	return nil
}

// takeOver restores the appointments of the predecessor, and remembers the pods that it has evicted.
func (c *evictionController) takeOver(left handover) {
	for key, uid := range left.evicted {
		c.rememberEvicted(key, uid)
	}
	for key, made := range left.appointments {
		c.appointments.set(key, made)
		c.evictLater(item{NamespacedName: key, uid: made.uid}, made.due)
	}
}
