package nodelifecycle

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// handover is the state that an instance passes to its successor.
type handover struct {
	nodes map[string]leftNode
	zones map[string]leftZone
	gone  []identity
	sight sight
	// passed is the start of the last pass, so that the first one of the successor finds who fell silent since.
	passed time.Time
}

type leftNode struct {
	uid        types.UID
	seen       time.Time
	heartbeat  metav1.Time
	renewed    metav1.MicroTime
	fastest    time.Duration
	isTimed    bool
	registered bool
	mustMark   bool
	came       bool
	eviction   eviction
	// node is what a write returned at the time wrote, nil if the cache shows that.
	node  *corev1.Node
	wrote time.Time
}

type leftZone struct {
	state   zoneState
	count   count
	limiter limiter
	waiting []string
}

// HandOver implements controller.HandsOver. Without it, the successor would detect silent nodes later and
// taint nodes at another rate.
func (c *lifecycleController) HandOver() handover { return c.cluster.handOver() }

func (c *cluster) handOver() handover {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := handover{
		nodes: map[string]leftNode{}, zones: map[string]leftZone{}, gone: c.gone, sight: c.sight, passed: c.passed,
	}
	for name, r := range c.nodes {
		l := leftNode{
			uid:        r.uid,
			seen:       r.seen,
			heartbeat:  r.heartbeat,
			renewed:    r.renewed,
			fastest:    r.fastest,
			isTimed:    r.isTimed,
			registered: r.registered,
			mustMark:   r.markOrder != 0,
			came:       r.came,
			eviction:   r.eviction,
		}
		if !r.wrote.IsZero() {
			l.node, l.wrote = r.node, r.wrote
		}
		left.nodes[name] = l
	}
	for name, z := range c.zones {
		l := leftZone{state: z.state, count: z.count, limiter: z.limiter}
		for _, r := range z.waiting {
			l.waiting = append(l.waiting, r.name)
		}
		left.zones[name] = l
	}
	return left
}

// begin continues from the state of the predecessor. If there is none, pods of nodes that are already
// silent may still have to be marked.
func (c *lifecycleController) begin(context.Context) error {
	left, ok := controller.TakeOver(c.Env, c)
	toMark, changing := c.cluster.begin(left, ok, c.Clock.Now())
	for _, name := range toMark {
		c.markQueue.Add(name)
	}
	for _, name := range changing {
		c.nodeQueue.Add(name)
	}
	return nil
}

// begin adopts the state of a predecessor, if there was one. The event handlers have already received all nodes and
// Leases. begin returns the nodes whose pods have to be marked, and the nodes whose taints have to change. Those of
// nodes whose conditions are Unknown have to be marked even if the predecessor has done so: another process may have
// shown that since, and not have come to them, and the cache of the predecessor may have lacked some.
func (c *cluster) begin(left handover, ok bool, now time.Time) (toMark, changing []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = true
	c.noteLeases()
	if ok {
		c.takeOver(left, now)
	} else {
		c.sight.begin(now)
	}
	for name, r := range c.nodes {
		if r.ready == corev1.ConditionUnknown {
			r.unknownPending = false
			c.mark(r)
		}
		if r.markOrder != 0 {
			toMark = append(toMark, name)
		}
		if r.eviction == granted || r.eviction == stripped {
			changing = append(changing, name)
		}
	}
	return toMark, changing
}

// noteLeases notes the renewals of nodes that were shown before their Leases. They do not count as heartbeats:
// nobody knows how old they are.
func (c *cluster) noteLeases() {
	for _, r := range c.nodes {
		if r.renewed.IsZero() {
			r.renew(c.cachedLease(r), r.seen)
		}
	}
}

// takeOver continues with the state of a predecessor. After an interruption, in which another process may have had the
// lease, a pending taint is not added: the node may have sent a heartbeat, or have been tainted and untainted. Taints
// are stripped as long as no zone has a ready node. A node that the predecessor did not know has come since.
func (c *cluster) takeOver(left handover, now time.Time) {
	interrupted, isDown := now.Sub(left.sight.sign) > c.sight.interruption, c.isDown()
	c.sight.takeOver(left.sight)
	c.passed = left.passed
	c.gone = append(c.gone, left.gone...)
	for _, r := range c.nodes {
		r.came = true
	}
	for name, l := range left.nodes {
		r := c.nodes[name]
		if r == nil || r.uid != l.uid {
			if l.registered {
				c.gone = append(c.gone, identity{name, l.uid})
			}
			continue
		}
		c.adopt(r, l, now)
		if l.eviction == granted && !interrupted || l.eviction == stripped && (!interrupted || isDown) {
			r.eviction = l.eviction
		}
	}
	c.adoptZones(left, now)
}

// adopt continues with what the predecessor knew of a node.
func (c *cluster) adopt(r *record, l leftNode, now time.Time) {
	r.registered, r.came = l.registered, l.came
	if l.isTimed && (!r.isTimed || l.fastest < r.fastest) {
		r.fastest, r.isTimed = l.fastest, true
	}
	if l.node != nil {
		c.adoptWrite(r, l, now)
	}
	if l.mustMark {
		c.mark(r)
	}
	if r.heartbeat.Equal(&l.heartbeat) && r.renewed.Equal(&l.renewed) {
		r.seen = l.seen
	}
}

// adoptWrite continues with what a write of the predecessor returned, if the cache is behind it. Otherwise a node that
// was Unknown would seem to be ready again.
func (c *cluster) adoptWrite(r *record, l leftNode, now time.Time) {
	if now.Sub(l.wrote) >= writes.Timeout || !isOlder(r.node, l.node) {
		return
	}
	seen := r.seen
	c.update(r, l.node, now)
	r.seen, r.wrote = seen, l.wrote
}

// isDown reports whether no node that counts is ready.
func (c *cluster) isDown() bool {
	for _, r := range c.nodes {
		if r.ready == corev1.ConditionTrue && !r.excluded {
			return false
		}
	}
	return true
}

// adoptZones adopts the states of zones, and their queues in order. It uses the rates of the current
// configuration, which may have changed.
func (c *cluster) adoptZones(left handover, now time.Time) {
	allFull := true
	for _, l := range left.zones {
		allFull = allFull && (l.state == full || l.state == uncounted)
	}
	for name, l := range left.zones {
		z := &zone{state: l.state, count: l.count, limiter: l.limiter}
		if rate := c.rates.rateOf(l.state, l.count.all()); l.state != full || !allFull {
			z.limiter.set(rate, now)
		}
		for _, node := range l.waiting {
			r := c.nodes[node]
			if r == nil || r.uid != left.nodes[node].uid || r.zone != name {
				continue
			}
			if isNotReady(r.ready) && r.eviction == none {
				r.eviction = waiting
				z.waiting = append(z.waiting, r)
			}
		}
		c.zones[name] = z
	}
}

// takeOver continues the view of a predecessor, and then applies the later sign of this instance. As of when Leases are
// known is shown by the next renewal: this instance did not know how fast they are.
func (s *sight) takeOver(left sight) {
	own := *s
	*s = left
	s.quiet, s.interruption = own.quiet, own.interruption
	if own.sign.After(s.sign) {
		s.reached(own.sign)
	}
}
