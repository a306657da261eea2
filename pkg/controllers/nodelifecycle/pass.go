package nodelifecycle

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller/concurrent"
)

// passIfDue does a pass if one is due.
func (c *lifecycleController) passIfDue(ctx, working context.Context) {
	if !c.cluster.isDue(c.Clock.Now()) {
		return
	}
	c.pass(ctx, working)
	c.cluster.hasPassed(c.Clock.Now())
}

// isDue reports whether the last pass ended a period ago, or a grace period has ended since. If a pass
// failed for a node whose grace period had already ended, the retry waits for the next period.
func (c *cluster) isDue(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.ended) >= c.period || !c.next.IsZero() && now.After(c.next)
}

func (c *cluster) hasPassed(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = now
}

// pass finds nodes that have fallen silent, and judges zones. If nothing has changed, it only compares
// times and counts nodes.
func (c *lifecycleController) pass(ctx, working context.Context) {
	began := c.Clock.Now()
	c.announce()
	last := began
	silent, suspect := c.cluster.findSilent(began, func() {
		now := c.Clock.Now()
		c.metrics.node.Observe(now.Sub(last).Seconds())
		last = now
	})
	if suspect != "" {
		silent = c.confirmSilent(working, silent, suspect)
	}
	concurrent.Each(len(silent), parallelism, func(i int) {
		if ctx.Err() == nil {
			c.setUnknown(working, silent[i])
		}
	})
	zones, toStrip := c.cluster.judge(c.Clock.Now(), began)
	for _, z := range zones {
		if z.gone {
			c.metrics.forget(z.name)
		} else {
			c.metrics.counted(z.name, z.count)
			c.metrics.evictions.WithLabelValues(z.name).Add(0)
		}
		if z.from != z.to && (z.from != uncounted || z.to != normal) {
			klog.FromContext(working).Info("State of a zone has changed", "zone", z.name,
				"from", string(z.from), "to", string(z.to), "nodes", z.count.all(), "notReady", z.count.notReady)
		}
	}
	for _, name := range toStrip {
		c.nodeQueue.Add(name)
	}
	c.metrics.pass.Observe(c.Clock.Now().Sub(began).Seconds())
}

// announce records events for nodes that were added or deleted.
func (c *lifecycleController) announce() {
	added, gone := c.cluster.news()
	for _, node := range gone {
		c.Record(removing(node))
	}
	for _, node := range added {
		c.Record(registered(node))
	}
}

// judged is the result of a pass for a zone.
type judged struct {
	name     string
	count    count
	from, to zoneState
	gone     bool // it has no nodes any more
}

// judge counts the nodes of all zones, sets the states and rates of zones, and puts nodes that are not
// ready into the queues. It returns the zones, and the nodes whose taints have to be removed. began is the
// start of the pass.
func (c *cluster) judge(now, began time.Time) (zones []judged, toStrip []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed = began
	c.count(now)
	var before, is []zoneState
	for name, z := range c.zones {
		j := judged{name: name, count: z.count, from: z.state}
		if z.count.all() == 0 && z.state != uncounted {
			before = append(before, z.state)
		}
		switch {
		case z.count.all() > 0:
			if j.to = c.rates.stateOf(z.count); z.state == uncounted {
				z.state = initial
			}
			before, is = append(before, z.state), append(is, j.to)
		case z.nodes == 0:
			delete(c.zones, name)
			j.gone = true
		case z.state != uncounted:
			z.state = uncounted
			z.limiter.set(c.rates.normal, now)
		}
		zones = append(zones, j)
	}
	switch reaction := reactionTo(before, is); reaction {
	case stop:
		c.rate(zones, now, func(judged) float32 { return 0 })
		toStrip = c.strip(func(*record) bool { return true })
	case keep:
		if len(is) > 0 { // all are full: a list may have lacked a node when the others were stripped
			toStrip = c.strip(func(r *record) bool { return r.came })
		}
	case resume:
		c.sight.since = now
		c.rate(zones, now, func(j judged) float32 { return c.rates.rateOf(j.to, j.count.all()) })
	case follow:
		c.rate(slices.DeleteFunc(slices.Clone(zones), func(j judged) bool { return j.from == j.to }), now,
			func(j judged) float32 { return c.rates.rateOf(j.to, j.count.all()) })
	}
	for _, r := range c.nodes {
		r.came = false
	}
	c.enqueue()
	return zones, toStrip
}

// count counts the nodes of each zone.
func (c *cluster) count(now time.Time) {
	for _, z := range c.zones {
		z.count, z.nodes = count{}, 0
	}
	for _, r := range c.nodes {
		z := c.zones[r.zone]
		if z == nil {
			z = &zone{limiter: newLimiter(c.rates.normal, now)}
			c.zones[r.zone] = z
		}
		z.nodes++
		switch {
		case r.excluded:
		case r.ready == corev1.ConditionTrue:
			z.count.ready++
		default:
			z.count.notReady++
		}
	}
}

// rate sets the states and rates of zones, except for uncounted zones.
func (c *cluster) rate(zones []judged, now time.Time, rate func(judged) float32) {
	for _, j := range zones {
		if z := c.zones[j.name]; z != nil && j.to != uncounted {
			z.state = j.to
			z.limiter.set(rate(j), now)
		}
	}
}

// strip marks nodes for the removal of taints that evict pods. It returns those of the nodes that have or may get
// one.
func (c *cluster) strip(nodes func(*record) bool) (names []string) {
	for _, r := range c.nodes {
		if nodes(r) && (r.eviction == granted || isEvicting(r.node)) {
			c.settle(r, r.zone)
			r.eviction = stripped
			names = append(names, r.name)
		}
	}
	slices.Sort(names)
	return names
}

// enqueue adds nodes that are not ready to the queues of their zones, the longest silent first. It removes
// other nodes from the queues.
func (c *cluster) enqueue() {
	var waits []*record
	for _, r := range c.nodes {
		switch {
		case r.ready == "":
			r.markOrder = 0
		case r.ready == corev1.ConditionTrue:
			r.markOrder = 0
			if r.eviction == waiting || r.eviction == granted {
				c.settle(r, r.zone)
			}
		case r.eviction == waiting && isEvicting(r.node):
			c.settle(r, r.zone)
		case r.eviction == none && !isEvicting(r.node):
			waits = append(waits, r)
		}
	}
	slices.SortFunc(waits, func(a, b *record) int {
		return cmp.Or(a.seen.Compare(b.seen), cmp.Compare(a.name, b.name))
	})
	for _, r := range waits {
		r.eviction = waiting
		z := c.zones[r.zone]
		z.waiting = append(z.waiting, r)
	}
}

// grant releases nodes from the queues of their zones.
func (c *lifecycleController) grant() {
	for _, name := range c.cluster.grant(c.Clock.Now()) {
		c.nodeQueue.Add(name)
	}
}

func (c *cluster) grant(now time.Time) (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, z := range c.zones {
		for len(z.waiting) > 0 && z.limiter.take(now) {
			r := z.waiting[0]
			z.leave(r)
			if r.eviction = none; isNotReady(r.ready) {
				r.eviction = granted
				names = append(names, r.name)
			}
		}
	}
	return names
}
