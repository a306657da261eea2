package nodeipam

import (
	"net/netip"
	"slices"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// handover is what an instance hands over: where it would look for the next free block, and what all nodes hold. The
// cache of the successor may be filled by a list that lacks some of them.
type handover struct {
	next     map[division]int
	holdings []holding
}

// division is a range of the cluster and the bits of the network part of its blocks.
type division struct {
	cluster netip.Prefix
	bits    int
}

// HandOver implements controller.HandsOver.
func (c *ipamController) HandOver() handover { return c.ranges.handOver() }

// takeOver continues what the predecessor began. The nodes that it chose blocks for are queued:
// an instance that does not see one of them must find out whether it exists.
func (c *ipamController) takeOver() {
	left, ok := controller.TakeOver(c.Env, c)
	if !ok {
		return
	}
	for _, name := range c.ranges.takeOver(left) {
		c.queue.Enqueue(reconcile.Backlog, name)
	}
}

func (r *ranges) handOver() handover {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := handover{next: map[division]int{}}
	for _, s := range r.sets {
		left.next[division{s.cluster, s.bits}] = s.next
	}
	for _, all := range r.holdings {
		left.holdings = append(left.holdings, all...)
	}
	return left
}

// takeOver adds what a predecessor handed over, unless the cache has shown it, and returns the nodes concerned. Another
// process may have held the lease in between: what nodes are known to hold is newer. If a node may have blocks of which
// one is held by others by now, it gets others in its place, and all stay held.
func (r *ranges) takeOver(left handover) (nodes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sets {
		s.next = left.next[division{s.cluster, s.bits}]
	}
	for _, h := range left.holdings {
		if r.find(h.incarnation) >= 0 {
			continue
		}
		if h.shown {
			h.lose()
		}
		if slices.ContainsFunc(h.prefixes, r.isHeld) {
			if !h.isUnsettled() {
				continue
			}
			h.former, h.prefixes = h.all(), nil
		}
		r.occupy(h.all())
		r.add(h)
		nodes = append(nodes, h.name)
	}
	return nodes
}

// isHeld reports whether something holds one of the blocks that a range overlaps.
func (r *ranges) isHeld(p netip.Prefix) bool {
	return slices.ContainsFunc(r.sets, func(s *blockSet) bool { return !s.isFree(p) })
}
