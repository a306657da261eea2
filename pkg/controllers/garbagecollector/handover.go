package garbagecollector

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// handover is what an instance leaves to its successor. It is of use for the same cluster
// only. But for absent owners, which are forgotten after a minute, nothing is concluded from
// it: it says what to watch, and what to look at.
type handover struct {
	graph     *graph
	monitored map[schema.GroupVersionResource]*monitored
	// attempt and orphan are the nodes that were queued, being worked on or backing off.
	attempt, orphan []*node
}

// adopt moves all that another graph holds into this one, which is empty. The monitors of
// the other are over.
func (g *graph) adopt(other *graph) {
	other.mu.Lock()
	nodes, shown, absent := other.nodes, other.shown, other.absent
	other.nodes, other.shown = map[types.UID]*node{}, map[*monitored]int{} // something may still show it
	for m := range shown {
		m.over = true
	}
	other.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nodes, g.shown, g.absent = nodes, shown, absent
}
