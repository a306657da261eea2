package garbagecollector

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func added(m *monitored, o *metav1.PartialObjectMetadata) *change {
	return &change{kind: changeObserved, monitored: m, new: o}
}

func updated(m *monitored, was, is *metav1.PartialObjectMetadata) *change {
	return &change{kind: changeObserved, monitored: m, old: was, new: is}
}

func lost(m *monitored, o *metav1.PartialObjectMetadata) *change {
	return &change{kind: changeGone, monitored: m, old: o}
}

func shownAll(watched ...*monitored) *change {
	return &change{kind: changeReplayed, kinds: kinds(watched...)}
}

func kinds(watched ...*monitored) map[schema.GroupResource]bool {
	all := map[schema.GroupResource]bool{}
	for _, m := range watched {
		all[m.resource.GroupResource()] = true
	}
	return all
}

func refuted(id identity) *change { return &change{kind: changeAbsent, identity: id} }

// told renders effects: what is attempted, tried later, orphaned, and events, sorted.
func told(e effects) string {
	var all []string
	list := func(as string, nodes []*node) {
		for _, n := range nodes {
			all = append(all, fmt.Sprintf("%s %s %s/%s", as, n.kind, n.namespace, n.name))
		}
	}
	list("attempt", e.attempt)
	for _, d := range e.later {
		list("later", []*node{d.node})
	}
	list("orphan", e.orphan)
	for _, ref := range e.invalid {
		all = append(all, fmt.Sprintf("event %s: %s", ref.dependent.name, ref.owner))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "; ")
}

// held renders what the graph holds, sorted.
func held(g *graph) string {
	var all []string
	for _, n := range g.nodes {
		text := fmt.Sprintf("%s %s/%s", n.kind, n.namespace, n.name)
		if n.virtual {
			text += " virtual"
		} else if n.unwatched() {
			text += " unwatched"
		}
		if n.deletingDependents {
			text += " foreground"
		}
		var dependents []string
		for dependent, blocks := range n.dependents {
			dependents = append(dependents, fmt.Sprintf(" <%s %v", dependent.name, blocks))
		}
		slices.Sort(dependents)
		all = append(all, text+strings.Join(dependents, ""))
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

const (
	foreground = metav1.FinalizerDeleteDependents
	orphan     = metav1.FinalizerOrphanDependents
)
