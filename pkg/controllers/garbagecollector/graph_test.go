package garbagecollector

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

// TestApply makes changes and compares what follows from the last one, and the graph then.
func TestApply(t *testing.T) {
	child := object("a", "child", owner("ConfigMap", "parent"))
	parent := object("a", "parent")
	twice := object("a", "child", owner("ConfigMap", "parent"), owner("Secret", "parent"))
	for name, c := range map[string]struct {
		changes []*change
		want    string
		graph   string
	}{
		"GC-35: an unknown owner is looked up": {
			changes: []*change{added(secrets, child)},
			want:    "attempt ConfigMap a/parent",
			graph:   "ConfigMap a/parent virtual <child false; Secret a/child",
		},
		"GC-27b: an owner that shows up is as claimed": {
			changes: []*change{added(secrets, child), added(configMaps, parent)},
			graph:   "ConfigMap a/parent <child false; Secret a/child",
		},
		"GC-36: a known owner needs no look": {
			changes: []*change{added(configMaps, parent), added(secrets, child)},
			graph:   "ConfigMap a/parent <child false; Secret a/child",
		},
		"GC-32: dependents of a deleted owner are looked at": {
			changes: []*change{added(configMaps, parent), added(secrets, child), lost(configMaps, parent)},
			want:    "attempt Secret a/child",
			graph:   "Secret a/child",
		},
		"an owner that is being deleted is waited for": {
			changes: []*change{added(configMaps, parent), added(secrets, child), updated(configMaps, parent, object("a", "parent", deleted("x")))},
			graph:   "ConfigMap a/parent <child false; Secret a/child",
		},
		"GC-31a: an owner that the server refutes": {
			changes: []*change{added(secrets, child), refuted(id("ConfigMap", "a", "parent"))},
			want:    "attempt Secret a/child",
			graph:   "Secret a/child",
		},
		"GC-31c: an observed owner is refuted too": {
			changes: []*change{added(secrets, child), added(configMaps, parent), refuted(id("ConfigMap", "a", "parent"))},
			want:    "attempt Secret a/child",
			graph:   "Secret a/child",
		},
		"GC-31b: another identity of an observed owner is refuted": {
			changes: []*change{added(configMaps, parent), added(secrets, object("a", "bad", owner("Secret", "parent"))), added(secrets, child), refuted(id("Secret", "a", "parent"))},
			want:    "attempt Secret a/bad",
			graph:   "ConfigMap a/parent <bad false <child false; Secret a/bad; Secret a/child",
		},
		"GC-30: an unknown object is refuted or lost": {
			changes: []*change{refuted(id("Secret", "a", "x")), lost(secrets, object("a", "x"))},
		},
		"GC-36a, GC-66: owner in another namespace, known": {
			changes: []*change{added(configMaps, parent), added(secrets, object("b", "child", owner("ConfigMap", "parent")))},
			want:    "attempt Secret b/child; event child: [v1/ConfigMap, namespace: b, name: parent, uid: parent]",
			graph:   "ConfigMap a/parent <child false; Secret b/child",
		},
		"GC-27a, GC-66: owner in another namespace, found out later": {
			changes: []*change{added(secrets, object("b", "child", owner("ConfigMap", "parent"))), added(configMaps, parent)},
			want:    "attempt Secret b/child; event child: [v1/ConfigMap, namespace: b, name: parent, uid: parent]",
			graph:   "ConfigMap a/parent <child false; Secret b/child",
		},
		"cluster-scoped dependent of a namespaced owner": {
			changes: []*change{added(configMaps, parent), added(nodes, object("", "child", owner("ConfigMap", "parent")))},
			want:    "attempt Node /child; event child: [v1/ConfigMap, namespace: , name: parent, uid: parent]",
			graph:   "ConfigMap a/parent <child false; Node /child",
		},
		"GC-67: cluster-scoped owner of a namespaced dependent": {
			changes: []*change{added(secrets, object("a", "child", owner("Node", "parent"))), added(nodes, object("", "parent"))},
			graph:   "Node /parent <child false; Secret a/child",
		},
		"GC-36b, GC-37: owner with other coordinates": {
			changes: []*change{added(configMaps, parent), added(secrets, object("a", "child", owner("Secret", "parent")))},
			want:    "attempt Secret a/child",
			graph:   "ConfigMap a/parent <child false; Secret a/child",
		},
		"GC-111: a reference gets other coordinates": {
			changes: []*change{added(configMaps, parent), added(secrets, child), updated(secrets, child, object("a", "child", owner("Secret", "parent")))},
			want:    "attempt Secret a/child",
			graph:   "ConfigMap a/parent <child false; Secret a/child",
		},
		"GC-111: a reference with other coordinates is added": {
			changes: []*change{added(configMaps, parent), added(secrets, child), updated(secrets, child, twice)},
			want:    "attempt Secret a/child",
			graph:   "ConfigMap a/parent <child false; Secret a/child",
		},
		"GC-111: two references with the same UID stay": {
			changes: []*change{added(configMaps, parent), added(secrets, twice), updated(secrets, twice, object("a", "child", owner("ConfigMap", "parent"), owner("Secret", "parent"), deleted("x")))},
			graph:   "ConfigMap a/parent <child false; Secret a/child",
		},
		"GC-41, GC-111: the first of two references with the same UID, which blocks, is removed": {
			changes: []*change{
				added(configMaps, object("a", "parent", deleted(foreground))),
				added(secrets, object("a", "child", owner("Secret", "parent", blocking), owner("ConfigMap", "parent"))),
				updated(secrets, object("a", "child", owner("Secret", "parent", blocking), owner("ConfigMap", "parent")), child),
			},
			want:  "attempt ConfigMap a/parent",
			graph: "ConfigMap a/parent foreground <child false; Secret a/child",
		},
		"GC-36c: virtual owner that a cluster-scoped object named first": {
			changes: []*change{added(nodes, object("", "bad", owner("ConfigMap", "parent"))), added(secrets, child)},
			want:    "attempt Secret a/child",
			graph:   "ConfigMap /parent virtual <bad false <child false; Node /bad; Secret a/child",
		},
		"GC-31a, GC-33, GC-65: one claim of a virtual owner is refuted, another is left": {
			changes: []*change{
				added(secrets, object("a", "bad", owner("Secret", "parent"))), added(secrets, child),
				refuted(id("Secret", "a", "parent")),
			},
			want:  "attempt Secret a/bad; later ConfigMap a/parent",
			graph: "ConfigMap a/parent virtual <bad false <child false; Secret a/bad; Secret a/child",
		},
		"GC-105: a new dependent of an owner whose claims are looked up rarely": {
			changes: []*change{
				added(secrets, object("a", "bad", owner("Secret", "parent"))), added(secrets, child),
				refuted(id("Secret", "a", "parent")),
				added(secrets, object("a", "late", owner("ConfigMap", "parent"))),
			},
			want:  "attempt Secret a/late",
			graph: "ConfigMap a/parent virtual <bad false <child false <late false; Secret a/bad; Secret a/child; Secret a/late",
		},
		"GC-29: a removed owner forgets its dependent": {
			changes: []*change{added(configMaps, parent), added(secrets, child), updated(secrets, child, object("a", "child"))},
			graph:   "ConfigMap a/parent; Secret a/child",
		},
		"GC-29: an added owner gets a dependent": {
			changes: []*change{added(secrets, object("a", "child")), updated(secrets, object("a", "child"), child)},
			want:    "attempt ConfigMap a/parent",
			graph:   "ConfigMap a/parent virtual <child false; Secret a/child",
		},
		"GC-104: the last dependent of an owner that nothing shows goes": {
			changes: []*change{added(secrets, child), lost(secrets, child)},
		},
		"GC-104: the last dependent lets go of an owner that nothing shows": {
			changes: []*change{added(secrets, child), updated(secrets, child, object("a", "child"))},
			graph:   "Secret a/child",
		},
		"GC-104: one of two dependents of an owner that nothing shows goes": {
			changes: []*change{added(secrets, child), added(secrets, object("a", "other", owner("ConfigMap", "parent"))), lost(secrets, child)},
			graph:   "ConfigMap a/parent virtual <other false; Secret a/other",
		},
		"GC-104: a dependent refers twice to an owner that nothing shows, and goes": {
			changes: []*change{
				added(secrets, object("a", "child", owner("ConfigMap", "parent"), owner("ConfigMap", "parent", blocking))),
				lost(secrets, object("a", "child", owner("ConfigMap", "parent"), owner("ConfigMap", "parent", blocking))),
			},
		},
		"GC-104: an owner that nothing shows gets a dependent again": {
			changes: []*change{added(secrets, child), lost(secrets, child), added(secrets, object("a", "other", owner("ConfigMap", "parent")))},
			want:    "attempt ConfigMap a/parent",
			graph:   "ConfigMap a/parent virtual <other false; Secret a/other",
		},
		"GC-38, GC-40: foreground deletion begins": {
			changes: []*change{added(configMaps, parent), added(secrets, child), updated(configMaps, parent, object("a", "parent", deleted(foreground)))},
			want:    "attempt ConfigMap a/parent; attempt Secret a/child",
			graph:   "ConfigMap a/parent foreground <child false; Secret a/child",
		},
		"GC-28, GC-38: foreground deletion of something shown for the first time": {
			changes: []*change{added(secrets, child), added(configMaps, object("a", "parent", deleted(foreground)))},
			want:    "attempt ConfigMap a/parent; attempt Secret a/child",
			graph:   "ConfigMap a/parent foreground <child false; Secret a/child",
		},
		"GC-22: what was observed and is being deleted stays so": {
			changes: []*change{
				added(configMaps, object("a", "parent", deleted(foreground))), updated(configMaps, object("a", "parent", deleted(foreground)), parent),
				added(secrets, child),
			},
			graph: "ConfigMap a/parent foreground <child false; Secret a/child",
		},
		"GC-38: foreground deletion goes on": {
			changes: []*change{
				added(configMaps, object("a", "parent", deleted(foreground))),
				updated(configMaps, object("a", "parent", deleted(foreground)), object("a", "parent", deleted(foreground, "x"))),
			},
			graph: "ConfigMap a/parent foreground",
		},
		"GC-39: orphaning wins": {
			changes: []*change{added(secrets, child), added(configMaps, object("a", "parent", deleted(foreground, orphan)))},
			want:    "orphan ConfigMap a/parent",
			graph:   "ConfigMap a/parent <child false; Secret a/child",
		},
		"GC-39: orphaning begins": {
			changes: []*change{added(configMaps, parent), updated(configMaps, parent, object("a", "parent", deleted(orphan)))},
			want:    "orphan ConfigMap a/parent",
			graph:   "ConfigMap a/parent",
		},
		"GC-95: the last blocker goes": {
			changes: []*change{
				added(configMaps, object("a", "parent", deleted(foreground))),
				added(secrets, object("a", "one", owner("ConfigMap", "parent", blocking))),
				lost(secrets, object("a", "one", owner("ConfigMap", "parent", blocking))),
			},
			want:  "attempt ConfigMap a/parent",
			graph: "ConfigMap a/parent foreground",
		},
		"GC-95: one of two blockers goes": {
			changes: []*change{
				added(configMaps, object("a", "parent", deleted(foreground))),
				added(secrets, object("a", "one", owner("ConfigMap", "parent", blocking))),
				added(secrets, object("a", "two", owner("ConfigMap", "parent", blocking))),
				lost(secrets, object("a", "one", owner("ConfigMap", "parent", blocking))),
			},
			graph: "ConfigMap a/parent foreground <two true; Secret a/two",
		},
		"a blocker comes after the deletion began": {
			changes: []*change{
				added(configMaps, object("a", "parent", deleted(foreground))),
				added(secrets, object("a", "one", owner("ConfigMap", "parent", blocking))),
			},
			want:  "attempt Secret a/one",
			graph: "ConfigMap a/parent foreground <one true; Secret a/one",
		},
		"GC-41: a blocker stops blocking": {
			changes: []*change{
				added(configMaps, object("a", "parent", deleted(foreground))),
				added(secrets, object("a", "one", owner("ConfigMap", "parent", blocking))),
				added(secrets, object("a", "one", owner("ConfigMap", "parent"))),
			},
			want:  "attempt ConfigMap a/parent",
			graph: "ConfigMap a/parent foreground <one false; Secret a/one",
		},
		"GC-41, GC-108: an object stops blocking itself": {
			changes: []*change{
				added(secrets, object("a", "own", owner("Secret", "own", blocking), deleted(foreground))),
				updated(secrets, object("a", "own", owner("Secret", "own", blocking), deleted(foreground)), object("a", "own", owner("Secret", "own"), deleted(foreground))),
			},
			want:  "attempt Secret a/own",
			graph: "Secret a/own foreground <own false",
		},
		"GC-41, GC-108: an object does not own itself any more": {
			changes: []*change{
				added(secrets, object("a", "own", owner("Secret", "own", blocking), deleted(foreground))),
				updated(secrets, object("a", "own", owner("Secret", "own", blocking), deleted(foreground)), object("a", "own", deleted(foreground))),
			},
			want:  "attempt Secret a/own",
			graph: "Secret a/own foreground",
		},
		"GC-41: of two references of a blocker, the one that blocks is removed": {
			changes: []*change{
				added(configMaps, object("a", "parent", deleted(foreground))),
				added(secrets, object("a", "one", owner("ConfigMap", "parent"), owner("ConfigMap", "parent", blocking))),
				added(secrets, object("a", "one", owner("ConfigMap", "parent"))),
			},
			want:  "attempt ConfigMap a/parent",
			graph: "ConfigMap a/parent foreground <one false; Secret a/one",
		},
		"GC-41: a blocker lets go": {
			changes: []*change{
				added(configMaps, object("a", "parent", deleted(foreground))),
				added(secrets, object("a", "one", owner("ConfigMap", "parent", blocking))),
				added(secrets, object("a", "one")),
			},
			want:  "attempt ConfigMap a/parent",
			graph: "ConfigMap a/parent foreground; Secret a/one",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraph(clock.RealClock{})
			var last effects
			for _, change := range c.changes {
				last = g.apply(change)
			}
			if got := told(last); got != c.want {
				t.Errorf("what follows is %q, want %q", got, c.want)
			}
			if got := held(g); got != c.graph {
				t.Errorf("the graph is\n%s\nwant\n%s", got, c.graph)
			}
		})
	}
}

// TestReplacedNodesAreObsolete is about pointers that are still queued.
// Pins GC-42 and GC-71.
func TestReplacedNodesAreObsolete(t *testing.T) {
	g := newGraph(clock.RealClock{})
	e := g.apply(added(secrets, object("a", "child", owner("Secret", "parent"))))
	virtual := e.attempt[0]
	g.apply(added(configMaps, object("a", "parent")))
	if g.look(virtual).current || g.look(virtual).beingDeleted {
		t.Error("a node of another identity is still current")
	}
	if !g.look(g.nodes["parent"]).current {
		t.Error("its replacement is not")
	}
	if got := g.nodes["parent"].dependents; len(got) != 1 {
		t.Errorf("the replacement has %d dependents", len(got))
	}
}

// TestClaimsThatAreAllRefutedAreLookedUpMoreAndMoreRarely: two dependents disagree about an owner that
// does not exist, and stay, as with finalizers. Pins GC-105.
func TestClaimsThatAreAllRefutedAreLookedUpMoreAndMoreRarely(t *testing.T) {
	g := newGraph(clock.RealClock{})
	g.apply(added(secrets, object("a", "one", owner("ConfigMap", "parent"))))
	g.apply(added(secrets, object("a", "another", owner("Secret", "parent"))))
	var passed time.Duration
	looks := map[string]int{}
	for passed < time.Hour {
		n := g.nodes["parent"]
		looks[n.kind]++
		e := g.apply(refuted(n.identity))
		if len(e.later) != 1 || e.later[0].node != g.nodes["parent"] || e.later[0].node == n {
			t.Fatalf("after %v: %s", passed, told(e))
		}
		passed += e.later[0].after
		if passed < 10*time.Millisecond && looks[n.kind] > 1 {
			t.Errorf("%s is looked up again after %v", n.kind, passed)
		}
	}
	if looks["ConfigMap"] < 5 || looks["Secret"] < 5 || looks["ConfigMap"]+looks["Secret"] > 25 {
		t.Errorf("in an hour the claims are looked up %v times", looks)
	}
}

// Pins GC-34.
func TestAlternate(t *testing.T) {
	dependent := func(namespace string, kind, name string) *node {
		return &node{identity: id("Secret", namespace, namespace+kind+name), owners: []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: name, UID: "x"}}}
	}
	claim := func(kind, namespace, name string) identity {
		return identity{apiVersion: "v1", kind: kind, namespace: namespace, name: name, uid: "x"}
	}
	for name, c := range map[string]struct {
		dependents []*node
		absent     identity
		want       identity
		found      bool
	}{
		"there are no dependents": {absent: claim("A", "a", "n")},
		"only the absent one": {
			dependents: []*node{dependent("a", "A", "n")}, absent: claim("A", "a", "n"),
		},
		"the absent one is cluster-scoped": {
			dependents: []*node{dependent("a", "A", "n")}, absent: claim("A", "", "n"),
		},
		"the next in order": {
			dependents: []*node{dependent("a", "C", "n"), dependent("a", "A", "n"), dependent("a", "D", "n")},
			absent:     claim("B", "a", "n"), want: claim("C", "a", "n"), found: true,
		},
		"the first if there is no next": {
			dependents: []*node{dependent("a", "B", "n"), dependent("a", "A", "n")},
			absent:     claim("C", "a", "n"), want: claim("A", "a", "n"), found: true,
		},
		"the same in another namespace": {
			dependents: []*node{dependent("b", "A", "n")}, absent: claim("A", "a", "n"), want: claim("A", "b", "n"), found: true,
		},
		"a kind known to be cluster-scoped": {
			dependents: []*node{dependent("b", "A", "m")}, absent: claim("A", "", "n"), want: claim("A", "", "m"), found: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, found := alternate(c.dependents, c.absent)
			if got != c.want || found != c.found {
				t.Errorf("got %v %v, want %v %v", got, found, c.want, c.found)
			}
		})
	}
}

// Pins GC-88.
func TestUpdatesThatConcernNothingAreDropped(t *testing.T) {
	base := object("a", "x", owner("ConfigMap", "parent"))
	for name, c := range map[string]struct {
		is   *metav1.PartialObjectMetadata
		want bool
	}{
		"labels":      {object("a", "x", owner("ConfigMap", "parent"), func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"a": "b"} }), false},
		"owners":      {object("a", "x"), true},
		"blocking":    {object("a", "x", owner("ConfigMap", "parent", blocking)), true},
		"finalizers":  {object("a", "x", owner("ConfigMap", "parent"), func(m *metav1.ObjectMeta) { m.Finalizers = []string{"f"} }), true},
		"is deleted":  {object("a", "x", owner("ConfigMap", "parent"), deleted()), true},
		"new version": {object("a", "x", owner("ConfigMap", "parent"), func(m *metav1.ObjectMeta) { m.ResourceVersion = "2" }), false},
	} {
		if got := concerns(base, c.is); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestDraw(t *testing.T) {
	g := newGraph(clock.RealClock{})
	g.apply(added(secrets, object("a", "child", owner("ConfigMap", "parent"))))
	g.apply(added(configMaps, object("a", "alone")))
	g.apply(added(secrets, object("b", "other", owner("Node", "far"))))
	want := `strict digraph full {
  // Node definitions.
  "child" [
    label="uid=child\nnamespace=a\nSecret.v1/child\n"
    group=""
    version="v1"
    kind="Secret"
    namespace="a"
    name="child"
    uid="child"
    missing="false"
    beingDeleted="false"
    deletingDependents="false"
    virtual="false"
  ];
  "parent" [
    label="uid=parent\nnamespace=a\nConfigMap.v1/parent\nvirtual\n"
    group=""
    version="v1"
    kind="ConfigMap"
    namespace="a"
    name="parent"
    uid="parent"
    missing="false"
    beingDeleted="false"
    deletingDependents="false"
    virtual="true"
  ];
  // Edge definitions.
  "child" -> "parent";
}
`
	if got := string(g.draw([]string{"parent"})); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	delete(g.nodes, "far")
	if got := string(g.draw(nil)); !strings.Contains(got, `label="uid=far\nnamespace=\nNode.v1/far\nmissingFromGraph\n"`) || strings.Contains(got, "alone") {
		t.Errorf("got\n%s", got)
	}
	if got := string(newGraph(clock.RealClock{}).draw(nil)); got != "strict digraph full {\n}\n" {
		t.Errorf("the empty graph is %q", got)
	}
}
