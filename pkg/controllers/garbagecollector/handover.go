package garbagecollector

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// handover is what an instance hands over, valid for the same cluster only. It determines what
// to watch and what to examine; except for absent owners, which expire after a minute, nothing
// is concluded from it.
type handover struct {
	graph     *graph
	monitored map[schema.GroupVersionResource]*monitored
	// attempt and orphan are the nodes that were queued, in progress or backing off.
	attempt, orphan []*node
}

// adopt moves the content of another graph into this one, which is empty. The monitors of the
// other have ended.
func (g *graph) adopt(other *graph) {
	other.mu.Lock()
	nodes, shown, absent := other.nodes, other.shown, other.absent
	other.nodes, other.shown = map[types.UID]*node{}, map[*monitored]int{} // a monitor may still show it
	for m := range shown {
		m.stopped = true
	}
	other.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nodes, g.shown, g.absent = nodes, shown, absent
}

// takeOver continues with the state of the predecessor. See rule 10.
func (c *collector) takeOver(ctx context.Context, left *handover) {
	c.graph.adopt(left.graph)
	for resource, as := range left.monitored {
		if !c.ignored[resource.GroupResource()] {
			c.known[resource] = as
		}
	}
	c.apply(ctx, &change{kind: changeForgotten, lane: reconcile.Backlog, kinds: c.ignored})
	for _, n := range left.attempt {
		c.attempt.add(reconcile.Backlog, n)
	}
	for _, n := range left.orphan {
		c.orphan.add(reconcile.Backlog, n)
	}
}

// HandOver implements controller.HandsOver.
func (c *collector) HandOver() *handover {
	all := c.monitors.watched()
	maps.Copy(all, c.known)
	return &handover{graph: c.graph, monitored: all, attempt: c.attempt.left(), orphan: c.orphan.left()}
}
