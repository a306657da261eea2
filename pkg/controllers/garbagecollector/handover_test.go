package garbagecollector

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestHandedOverGraph replays into a graph of a predecessor and sweeps.
func TestHandedOverGraph(t *testing.T) {
	child := object("a", "child", owner("ConfigMap", "parent"))
	parent := object("a", "parent")
	sweep := &change{kind: replayed, resources: map[schema.GroupVersionResource]bool{configMaps.resource: true, secrets.resource: true}}
	for name, c := range map[string]struct {
		replay  []*change
		want    string // after the sweep
		graph   string
		instant string // after the last replayed object
	}{
		"nothing happened": {
			replay: []*change{added(secrets, child), added(configMaps, parent)},
			graph:  "ConfigMap a/parent <child false; Secret a/child",
		},
		"the owner went": {
			replay: []*change{added(secrets, child)},
			want:   "attempt Secret a/child",
			graph:  "Secret a/child",
		},
		"both went": {},
		"the dependent went": {
			replay: []*change{added(configMaps, parent)},
			graph:  "ConfigMap a/parent",
		},
		"the owner was changed": {
			replay:  []*change{added(configMaps, parent), added(secrets, object("a", "child", owner("ConfigMap", "other")))},
			instant: "attempt ConfigMap a/other",
			graph:   "ConfigMap a/other virtual <child false; ConfigMap a/parent; Secret a/child",
		},
		"a foreground deletion began": {
			replay:  []*change{added(secrets, child), added(configMaps, object("a", "parent", deleted(foreground)))},
			instant: "attempt ConfigMap a/parent; attempt Secret a/child",
			graph:   "ConfigMap a/parent foreground <child false; Secret a/child",
		},
		"the owner was made anew under its name": {
			replay: []*change{added(secrets, child), added(configMaps, object("a", "parent", func(m *metav1.ObjectMeta) { m.UID = "new" }))},
			want:   "attempt Secret a/child",
			graph:  "ConfigMap a/parent; Secret a/child",
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := newGraph()
			before.apply(added(configMaps, parent))
			before.apply(added(secrets, child))
			g := newGraph()
			g.adopt(before)
			var last effects
			for _, change := range c.replay {
				last = g.apply(change)
			}
			if got := told(last); got != c.instant {
				t.Errorf("the replay asks for %q, want %q", got, c.instant)
			}
			if got := told(g.apply(sweep)); got != c.want {
				t.Errorf("the sweep asks for %q, want %q", got, c.want)
			}
			if got := held(g); got != c.graph {
				t.Errorf("the graph is\n%s\nwant\n%s", got, c.graph)
			}
			if len(before.nodes) > 0 {
				t.Error("the predecessor still has the nodes")
			}
		})
	}
}

func TestSweepSparesWhatIsNotReplayedYet(t *testing.T) {
	before := newGraph()
	before.apply(added(configMaps, object("a", "parent")))
	before.apply(added(secrets, object("a", "child", owner("ConfigMap", "parent"))))
	g := newGraph()
	g.adopt(before)
	g.apply(&change{kind: replayed, resources: map[schema.GroupVersionResource]bool{secrets.resource: true}})
	if got := held(g); got != "ConfigMap a/parent" {
		t.Errorf("the graph is %s", got)
	}
	ref := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "parent", UID: "parent"}
	if _, lives := g.lives(ref, "a"); lives {
		t.Error("an owner that only the predecessor saw counts as alive")
	}
	g.apply(added(configMaps, object("a", "parent")))
	if _, lives := g.lives(ref, "a"); !lives {
		t.Error("a replayed owner does not count as alive")
	}
}
