package nodelifecycle

import (
	"cmp"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// cluster holds the state of nodes and zones.
type cluster struct {
	config
	// lease returns the cached Lease of a node, nil if there is none.
	lease func(node string) *coordinationv1.Lease

	mu    sync.Mutex
	begun bool               // whether the instance has begun
	nodes map[string]*record // by name
	zones map[string]*zone
	gone  []identity // announced ones whose removal is to be announced
	// orders is the number of orders to mark the pods of a node that were given.
	orders int
	sight  sight
	// passed is the start of the last pass, ended its end.
	passed, ended time.Time
	// next is the earliest end of a grace period that had not ended in the last pass, zero if
	// there is none.
	next time.Time
}

// identity identifies a node by name and UID.
type identity struct {
	name string
	uid  types.UID
}

func (n identity) compare(other identity) int { return cmp.Compare(n.name, other.name) }

func newCluster(c config, lease func(node string) *coordinationv1.Lease) *cluster {
	return &cluster{
		config: c,
		lease:  lease,
		nodes:  map[string]*record{},
		zones:  map[string]*zone{},
		sight:  newSight(c.grace, c.period),
	}
}

// show records the cached state of a node. It reports whether its pods have to be marked because the node comes as
// silent while the instance runs.
func (c *cluster) show(node *corev1.Node, now time.Time) (toMark bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.nodes[node.Name]
	if r != nil && r.uid != node.UID {
		c.remove(r)
		r = nil
	}
	if r == nil {
		r = &record{name: node.Name, uid: node.UID, seen: now}
		c.nodes[node.Name] = r
		r.renew(c.cachedLease(r), now)
		r.show(node, now)
		return c.begun && c.came(r)
	}
	if r.isBehind(node, now) {
		return false
	}
	r.wrote = time.Time{}
	if c.update(r, node, now) {
		c.sight.reached(now)
	}
	return false
}

// came decides what has to be done about a node that comes while the instance runs. A list may have lacked it, and what
// was pending for it was forgotten. It reports whether its pods have to be marked.
func (c *cluster) came(r *record) (toMark bool) {
	r.came = true // the next pass decides about its taints, when others have come, too
	if r.ready != corev1.ConditionUnknown {
		return false
	}
	c.mark(r)
	return true
}

// update changes the state of a node. A node that changes its zone leaves the queue of the old one. Taints that are to
// be stripped still are. The pods of a ready node that another process shows as silent have to be marked, too: that may
// have ended before its write was executed.
func (c *cluster) update(r *record, node *corev1.Node, now time.Time) (heartbeat bool) {
	was, wasReady := r.zone, r.ready == corev1.ConditionTrue
	heartbeat = r.show(node, now)
	if wasReady && r.ready == corev1.ConditionUnknown {
		r.unknownPending = true
	}
	if r.zone != was && r.eviction != stripped {
		c.settle(r, was)
	}
	return heartbeat
}

// settle cancels the pending change to the evicting taints of a node.
func (c *cluster) settle(r *record, name string) {
	if z := c.zones[name]; z != nil && r.eviction == waiting {
		z.leave(r)
	}
	r.eviction = none
}

// delete forgets a node that is gone.
func (c *cluster) delete(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.nodes[node.Name]; r != nil && r.uid == node.UID {
		c.remove(r)
	}
}

func (c *cluster) remove(r *record) {
	c.settle(r, r.zone)
	delete(c.nodes, r.name)
	if r.registered {
		c.gone = append(c.gone, identity{r.name, r.uid})
	}
}

// renew records a renewal of a Lease. It is called for each renewal that the watch delivers.
func (c *cluster) renew(lease *coordinationv1.Lease, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sight.reached(now)
	r := c.nodes[lease.Name]
	if r == nil || lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Equal(&r.renewed) {
		return
	}
	r.isLeased = true
	if late, ok := r.lateness(*lease.Spec.RenewTime, now); ok {
		c.sight.sawLeases(now.Add(-late))
	}
	r.renew(lease, now)
}

// wrote records the state of a node that a write returned. The write does not count as a heartbeat.
func (c *cluster) wrote(node *corev1.Node, now time.Time) { c.answered(node, now, false) }

// read records the state of a node that was read live, or that a write to any version of it returned. It may contain a
// new heartbeat.
func (c *cluster) read(node *corev1.Node, now time.Time) { c.answered(node, now, true) }

func (c *cluster) answered(node *corev1.Node, now time.Time, read bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sight.reached(now)
	r := c.nodes[node.Name]
	if r == nil || r.uid != node.UID || isOlder(node, r.node) {
		return
	}
	node.ManagedFields = nil
	seen := r.seen
	c.update(r, node, now)
	if !read {
		r.seen = seen
	}
	r.wrote = now
}

// newest returns the newest known state of a node, nil if there is none, and the pending change to its
// evicting taints.
func (c *cluster) newest(name string) (*corev1.Node, eviction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.nodes[name]; r != nil {
		return r.node, r.eviction
	}
	return nil, none
}

// readiness returns the status of the Ready condition of a node, empty if there is none.
func (c *cluster) readiness(name string) corev1.ConditionStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.nodes[name]; r != nil {
		return r.ready
	}
	return ""
}

// tainted records that the pending change to the taints of a node is done.
func (c *cluster) tainted(node *corev1.Node, done eviction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.nodes[node.Name]
	if r != nil && r.uid == node.UID && r.eviction == done && done != waiting {
		r.eviction = none
	}
}

// mark requests that the pods of a node be marked as not ready. The caller holds the lock.
func (c *cluster) mark(r *record) {
	c.orders++
	r.markOrder = c.orders
}

// toMark returns the order to mark the pods of a node, 0 if there is none or the node is ready by now.
func (c *cluster) toMark(name string) (order int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.nodes[name]
	if r == nil {
		return 0
	}
	if !isNotReady(r.ready) {
		r.markOrder = 0
	}
	return r.markOrder
}

// marked records that an order to mark the pods of a node was carried out. A newer one stays: meanwhile the node was
// ready, and so may be pods that were marked.
func (c *cluster) marked(name string, order int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.nodes[name]; r != nil && r.markOrder == order {
		r.markOrder = 0
	}
}

// confirmedUnknown reports, once, whether the conditions of a node that was ready have become Unknown, by a write of this
// process or of another. From then on its pods have to be marked.
func (c *cluster) confirmedUnknown(name string) (identity, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.nodes[name]
	if r == nil || !r.unknownPending || r.ready != corev1.ConditionUnknown {
		return identity{}, false
	}
	r.unknownPending = false
	c.mark(r)
	return identity{r.name, r.uid}, true
}

func isNotReady(ready corev1.ConditionStatus) bool {
	return ready != "" && ready != corev1.ConditionTrue
}

// news returns the added and the deleted nodes that were not announced yet. It records them as announced.
func (c *cluster) news() (added, gone []identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.nodes {
		if !r.registered {
			r.registered = true
			added = append(added, identity{r.name, r.uid})
		}
	}
	gone, c.gone = c.gone, nil
	slices.SortFunc(added, identity.compare)
	return added, gone
}
