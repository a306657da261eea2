package garbagecollector

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// TestObjectsThatAListLacks compares what follows from the last step, and the graph then. Pins GC-109.
func TestObjectsThatAListLacks(t *testing.T) {
	// The graph notes in a monitor that a list of it lacked something.
	configMaps, secrets := newMonitored(configMaps.resource, configMaps.kind), newMonitored(secrets.resource, secrets.kind)
	nodes := newMonitored(nodes.resource, nodes.kind)
	parent, parentDeleting := object("a", "parent"), object("a", "parent", deleted(foreground))
	parentOrphaning := object("a", "parent", deleted(orphan))
	child := object("a", "child", owner("ConfigMap", "parent", blocking))
	lacks := func(m *monitored, o *metav1.PartialObjectMetadata) *change {
		return &change{kind: changeMissed, monitored: m, old: o}
	}
	for name, c := range map[string]struct {
		changes []*change
		want    string
		graph   string
	}{
		"nothing follows": {
			changes: []*change{added(configMaps, parent), added(secrets, child), lacks(secrets, child)},
			graph:   "ConfigMap a/parent",
		},
		"it has dependents": {
			changes: []*change{added(configMaps, parent), added(secrets, child), lacks(configMaps, parent)},
			want:    "attempt ConfigMap a/parent",
			graph:   "ConfigMap a/parent unwatched <child true; Secret a/child",
		},
		"it blocks an owner": {
			changes: []*change{added(configMaps, parentDeleting), added(secrets, child), lacks(secrets, child)},
			want:    "attempt Secret a/child",
			graph:   "ConfigMap a/parent foreground <child true; Secret a/child unwatched",
		},
		"it is to be orphaned": {
			changes: []*change{added(configMaps, parentOrphaning), added(secrets, child), lacks(secrets, child)},
			want:    "attempt Secret a/child",
			graph:   "ConfigMap a/parent <child true; Secret a/child unwatched",
		},
		"it is shown again": {
			changes: []*change{added(configMaps, parent), added(secrets, child), lacks(configMaps, parent), added(configMaps, parent)},
			graph:   "ConfigMap a/parent <child true; Secret a/child",
		},
		"it is deleted after all": {
			changes: []*change{added(configMaps, parent), added(secrets, child), lacks(configMaps, parent), refuted(configMaps.identityOf(parent))},
			want:    "attempt Secret a/child",
			graph:   "Secret a/child",
		},
		"nobody has shown it": {
			changes: []*change{added(secrets, child), lacks(configMaps, parent)},
			graph:   "ConfigMap a/parent virtual <child true; Secret a/child",
		},
		"another resource shows it": {
			changes: []*change{added(configMaps, parent), added(nodes, parent), added(secrets, child), lacks(nodes, parent)},
			graph:   "ConfigMap a/parent <child true; Secret a/child",
		},
		"another resource, which has shown it later, shows it": {
			changes: []*change{added(configMaps, parent), added(nodes, parent), added(secrets, child), lacks(configMaps, parent)},
			graph:   "ConfigMap a/parent <child true; Secret a/child",
		},
		"another resource, which has shown it later, shows it without dependents": {
			changes: []*change{added(configMaps, parent), added(nodes, parent), lacks(configMaps, parent)},
			graph:   "ConfigMap a/parent",
		},
		"another resource shows its deletion later": {
			changes: []*change{
				added(configMaps, parent), added(nodes, parent), added(secrets, child), lacks(configMaps, parent), lost(nodes, parent),
			},
			want:  "attempt Secret a/child",
			graph: "Secret a/child",
		},
		"two resources lack it": {
			changes: []*change{
				added(configMaps, parent), added(nodes, parent), added(secrets, child), lacks(configMaps, parent), lacks(nodes, parent),
			},
			want:  "attempt ConfigMap a/parent",
			graph: "ConfigMap a/parent unwatched <child true; Secret a/child",
		},
		"two resources lack it, and nothing follows": {
			changes: []*change{added(configMaps, parent), added(nodes, parent), lacks(configMaps, parent), lacks(nodes, parent)},
		},
		"it is unknown": {
			changes: []*change{added(secrets, object("a", "alone")), lacks(configMaps, parent)},
			graph:   "Secret a/alone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraph(clock.RealClock{})
			var got string
			for _, change := range c.changes {
				got = told(g.apply(change))
			}
			if got != c.want {
				t.Errorf("what follows is %q, want %q", got, c.want)
			}
			if graph := held(g); graph != c.graph {
				t.Errorf("the graph holds %s, want %s", graph, c.graph)
			}
			checkCounts(t, g)
		})
	}
}

// TestAListLacksAnObject has a list after a break of a watch lack the owner of an object, or show another object of its
// name. Pins GC-109.
func TestAListLacksAnObject(t *testing.T) {
	configMaps, secrets := newMonitored(configMaps.resource, configMaps.kind), newMonitored(secrets.resource, secrets.kind)
	parent := typed(configMaps, object("a", "parent"))
	another := typed(configMaps, object("a", "parent", func(m *metav1.ObjectMeta) { m.UID, m.ResourceVersion = "another", "2" }))
	child := typed(secrets, object("a", "child", owner("ConfigMap", "parent")))
	for name, c := range map[string]struct {
		listed  *metav1.PartialObjectMetadata // in its place
		server  []runtime.Object
		writes  []string
		graph   string
		retried bool
	}{
		"the API server has it": {
			server: []runtime.Object{parent, child}, retried: true,
			graph: "ConfigMap a/parent unwatched <child false; Secret a/child",
		},
		"the API server has none": {
			server: []runtime.Object{child}, writes: []string{"delete child Background child@1"},
			graph: "Secret a/child",
		},
		"it has replaced the one that is listed": {
			listed: another, server: []runtime.Object{parent, child}, retried: true,
			graph: "ConfigMap a/parent; ConfigMap a/parent unwatched <child false; Secret a/child",
		},
		"the one that is listed has replaced it": {
			listed: another, server: []runtime.Object{another, child}, writes: []string{"delete child Background child@1"},
			graph: "ConfigMap a/parent; Secret a/child",
		},
		"it has replaced the one that is listed, and is gone, too": {
			listed: another, server: []runtime.Object{child}, writes: []string{"delete child Background child@1"},
			graph: "ConfigMap a/parent; Secret a/child",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.server...)
			notify := func(m *monitored) handler {
				w.monitors.deliver = func(ch *change) { w.apply(t.Context(), ch) }
				return handler{w.monitors, m}
			}
			notify(configMaps).OnAdd(parent, false)
			notify(secrets).OnAdd(child, false)
			if c.listed == nil {
				notify(configMaps).OnDelete(cache.DeletedFinalStateUnknown{Key: "a/parent", Obj: parent})
			} else {
				notify(configMaps).OnUpdate(parent, c.listed)
			}
			var err error
			if n := w.node("parent"); n != nil {
				err = w.attemptToDelete(t.Context(), n)
			}
			if retried := err != nil && reconcile.IsExpected(err); retried != c.retried {
				t.Errorf("the attempt on the owner ended with %v", err)
			}
			if err := w.attemptToDelete(t.Context(), w.node("child")); err != nil {
				t.Error(err)
			}
			if got := w.writes(); !slices.Equal(got, c.writes) {
				t.Errorf("the writes are %q, want %q", got, c.writes)
			}
			if got := held(w.graph); got != c.graph {
				t.Errorf("the graph holds %s, want %s", got, c.graph)
			}
		})
	}
}
