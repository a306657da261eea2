package garbagecollector

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// graph holds every object of the cluster with its owners. Only apply changes it, one change at
// a time. It knows no queue and no client, so it can be handed over.
type graph struct {
	absent absentOwners

	mu    sync.RWMutex
	nodes map[types.UID]*node
	// shown counts the observed nodes by monitored resource.
	shown map[*monitored]int
	// secondMonitors holds the other resource of objects that two resources show, such as events.
	secondMonitors map[types.UID]*monitored
}

func newGraph(c clock.PassiveClock) *graph {
	return &graph{
		absent:         newAbsentOwners(c),
		nodes:          map[types.UID]*node{},
		shown:          map[*monitored]int{},
		secondMonitors: map[types.UID]*monitored{},
	}
}

// changeKind is the kind of a change.
type changeKind string

const (
	// changeObserved: an informer shows an object, old and new or only new.
	changeObserved changeKind = "observed"
	// changeGone: an informer reports that the object old was deleted.
	changeGone changeKind = "gone"
	// changeMissed: an informer does not show the object old any more, but has not shown its deletion: a list lacks it,
	// or another object has its name.
	changeMissed changeKind = "missed"
	// changeEnded: an informer was stopped; its later notifications are stale.
	changeEnded changeKind = "ended"
	// changeAbsent: a live read found no object with an identity.
	changeAbsent changeKind = "absent"
	// changeOwned: a live read found the owner that the object with an identity claims.
	changeOwned changeKind = "owned"
	// changeAnswered: a live read returned an object that no informer shows.
	changeAnswered changeKind = "answered"
	// changeReplayed: the informers of kinds have synced.
	changeReplayed changeKind = "replayed"
	// changeForgotten: kinds that are not watched are no longer considered.
	changeForgotten changeKind = "forgotten"
)

// change is an input of the graph.
type change struct {
	kind changeKind
	lane reconcile.Lane // of its effects

	// Of an observed, gone or missed object, or of an informer.
	monitored *monitored
	old, new  metav1.Object // new is also set for an answer
	// Of an answer: the node that was read.
	node *node
	// Of an absent object, or of an owned one, with the reference to the owner.
	identity identity
	claim    metav1.OwnerReference
	// Of kinds, in any version.
	kinds map[schema.GroupResource]bool
	// done is called when the change and all before it have been applied; may be nil.
	done func()
}

func (c *change) String() string {
	switch {
	case c.node != nil:
		return string(c.kind) + " " + c.node.identity.String()
	case c.new != nil:
		return string(c.kind) + " " + c.monitored.identityOf(c.new).String()
	case c.old != nil:
		return string(c.kind) + " " + c.monitored.identityOf(c.old).String()
	case c.kind == changeAbsent || c.kind == changeOwned:
		return string(c.kind) + " " + c.identity.String()
	}
	return string(c.kind)
}

// effects are the consequences of a change.
type effects struct {
	// attempt are nodes to examine for deletion, later those that are examined after a while,
	// orphan those whose dependents are to be orphaned.
	attempt []*node
	later   []doubt
	orphan  []*node
	// invalid are references into another namespace.
	invalid []invalidReference
}

// invalidReference is a reference of a dependent to an owner in another namespace.
type invalidReference struct {
	dependent identity
	owner     identity // as claimed, in the namespace of the dependent
}

// apply applies a change and returns its effects.
func (g *graph) apply(c *change) effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	var e effects
	switch c.kind {
	case changeObserved:
		g.observe(c, &e)
	case changeGone:
		g.lose(c, &e)
	case changeMissed:
		g.miss(c, &e)
	case changeEnded:
		g.end(c.monitored)
	case changeAbsent:
		g.confirmAbsent(c.identity, &e)
	case changeOwned:
		g.relink(c.identity, c.claim, &e)
	case changeAnswered:
		g.answer(c, &e)
	case changeReplayed:
		g.doubtUnseen(c.kinds, &e)
	case changeForgotten:
		g.forget(c.kinds, &e)
	}
	return e
}

// link adds a node to the dependents of the owners that references name, which are among its
// own. It creates virtual nodes for unknown owners.
func (g *graph) link(n *node, refs []metav1.OwnerReference, e *effects) {
	suspicious := false
	for _, ref := range refs {
		owner, known := g.nodes[ref.UID]
		if !known {
			// The namespace of the dependent is a guess: the kind may have none.
			owner = &node{identity: claimed(ref, n.namespace), virtual: true}
			g.nodes[ref.UID] = owner
			e.attempt = append(e.attempt, owner)
		}
		owner.attach(n)
		if owner.deletingDependents && owner.dependents[n] {
			// The owner is not examined again before it has no such dependents.
			e.attempt = append(e.attempt, n)
		}
		if !known || suspicious {
			continue
		}
		suspicious = g.suspects(n, owner, ref, e)
	}
	if suspicious {
		e.attempt = append(e.attempt, n)
	}
}

// relink links an object to an owner that exists. It is not linked to one that was found to be absent before: a backup
// has restored it.
func (g *graph) relink(id identity, claim metav1.OwnerReference, e *effects) {
	n, known := g.nodes[id.uid]
	if !known || !hasReference(n.owners, claim) {
		return
	}
	if owner, known := g.nodes[claim.UID]; known {
		if _, linked := owner.dependents[n]; linked {
			return
		}
	}
	g.link(n, []metav1.OwnerReference{claim}, e)
}

// suspects reports whether a reference may disagree with the object that has its UID.
func (g *graph) suspects(n, owner *node, ref metav1.OwnerReference, e *effects) bool {
	switch {
	case owner.elsewhere(n.identity):
		if !owner.virtual {
			e.invalid = append(e.invalid, invalidReference{n.identity, claimed(ref, n.namespace)})
		}
		return true
	case !owner.matches(ref):
		return true
	case owner.virtual && owner.refuted > 0:
		return true // the owner may not be looked up again for a while
	default:
		// The first dependent was cluster-scoped, which says nothing about the scope of the
		// owner: see kubernetes/kubernetes#98040.
		return owner.virtual && owner.namespace == "" && n.namespace != ""
	}
}

// unlink removes a node from the dependents of owners, and adds owners that waited for it to
// the effects. A virtual owner leaves the graph with its last dependent: nothing would follow from
// its absence, and a later reference looks it up again.
func (g *graph) unlink(n *node, refs []metav1.OwnerReference, e *effects) {
	for _, ref := range refs {
		owner, known := g.nodes[ref.UID]
		if !known {
			continue
		}
		if _, linked := owner.dependents[n]; !linked {
			continue
		}
		owner.detach(n)
		switch {
		case owner.virtual && len(owner.dependents) == 0:
			delete(g.nodes, owner.uid)
		case owner != n && owner.released():
			e.attempt = append(e.attempt, owner)
		}
	}
}

// remove removes a node from the graph. Its dependents are examined because there is no object
// with the given identity, which can differ from that of the node.
func (g *graph) remove(n *node, known identity, e *effects) {
	g.drop(n, e)
	if len(n.dependents) == 0 {
		return
	}
	g.absent.add(known)
	for dependent := range n.dependents {
		e.attempt = append(e.attempt, dependent)
	}
}

// drop removes a node from the graph and from the dependents of its owners, of which it can be one
// itself.
func (g *graph) drop(n *node, e *effects) {
	g.unlink(n, n.owners, e)
	delete(g.nodes, n.uid)
	delete(g.secondMonitors, n.uid)
	g.uncount(n.monitored)
}

// replace replaces a node by a copy with another identity, also in its owners.
func (g *graph) replace(n *node, id identity) *node {
	copied := *n
	copied.identity = id
	g.nodes[id.uid] = &copied
	for _, ref := range n.owners {
		owner, known := g.nodes[ref.UID]
		if !known {
			continue
		}
		if _, linked := owner.dependents[n]; linked {
			owner.detach(n)
			owner.attach(&copied)
		}
	}
	for dependent := range copied.dependents {
		copied.attach(dependent)
	}
	return &copied
}
