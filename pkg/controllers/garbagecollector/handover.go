package garbagecollector

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// handover is what an instance leaves to its successor.
type handover struct {
	graph     *graph
	monitored map[schema.GroupVersionResource]*monitored
	// attempt and orphan are the nodes that were queued, being worked on or backing off.
	attempt, orphan []*node
}

// adopt moves all that another graph holds into this one, which is empty, and begins a new
// epoch: nothing counts as seen in it yet.
func (g *graph) adopt(other *graph) {
	other.mu.Lock()
	nodes, absent, epoch := other.nodes, other.absent, other.epoch
	other.nodes = map[types.UID]*node{} // something may still show it
	other.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nodes, g.absent, g.epoch = nodes, absent, epoch+1
}

// loseUnseen removes the objects of resources that were observed in an earlier epoch and
// not in this one: their deletion was missed between two instances.
func (g *graph) loseUnseen(resources map[schema.GroupVersionResource]bool, e *effects) {
	for _, n := range g.nodes {
		if !n.virtual && n.seen != g.epoch && resources[n.monitored.resource] {
			g.remove(n, n.identity, e)
		}
	}
	e.attempt = g.current(e.attempt)
}

// unmonitor forgets the objects of resources that are not watched any more. It is not known
// whether they still exist, so those with dependents become virtual: they are looked up,
// and as long as their kind is not served nothing is concluded from that.
func (g *graph) unmonitor(resources map[schema.GroupVersionResource]bool, e *effects) {
	for _, n := range g.nodes {
		if n.virtual || !resources[n.monitored.resource] {
			continue
		}
		delete(g.nodes, n.uid)
		g.unlink(n, n.owners, e)
		if len(n.dependents) == 0 {
			continue
		}
		virtual := &node{identity: n.identity, dependents: n.dependents, blocking: n.blocking, virtual: true}
		g.nodes[n.uid] = virtual
		e.attempt = append(e.attempt, virtual)
	}
	g.dropChildless(e)
	e.attempt = g.current(e.attempt)
}

// dropChildless removes new virtual nodes whose dependents were forgotten as well.
func (g *graph) dropChildless(e *effects) {
	for _, n := range e.attempt {
		if n.virtual && len(n.dependents) == 0 && g.nodes[n.uid] == n {
			delete(g.nodes, n.uid)
		}
	}
}

// current drops nodes that are not in the graph any more.
func (g *graph) current(nodes []*node) []*node {
	var kept []*node
	for _, n := range nodes {
		if g.nodes[n.uid] == n {
			kept = append(kept, n)
		}
	}
	return kept
}
