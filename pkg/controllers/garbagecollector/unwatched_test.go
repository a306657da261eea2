package garbagecollector

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/customresources"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/must"
)

// widgets are of a custom kind, which tests watch in one version or another.
func widgets(version string) *monitored {
	return newMonitored(schema.GroupVersionResource{Group: "x", Version: version, Resource: "widgets"}, "Widget")
}

func end(m *monitored) *change { return &change{kind: changeEnded, monitored: m} }

// TestObjectsOfKindsThatAreNotWatchedAnyMore compares what follows from the last step, and the
// graph then.
// Pins GC-89.
func TestObjectsOfKindsThatAreNotWatchedAnyMore(t *testing.T) {
	beta, stable := widgets("v1beta1"), widgets("v1")
	parent := object("a", "parent")
	parentDeleting := object("a", "parent", deleted(foreground))
	child := object("a", "child", owner("ConfigMap", "parent", blocking))
	for name, c := range map[string]struct {
		changes []*change
		want    string
		graph   string
	}{
		"dependents stay": {
			changes: []*change{added(configMaps, parent), added(beta, child), end(beta)},
			graph:   "ConfigMap a/parent <child true; Widget a/child unwatched",
		},
		"owners stay, and are known to have been observed": {
			changes: []*change{added(beta, object("a", "parent")), added(secrets, child), end(beta)},
			graph:   "Secret a/child; Widget a/parent unwatched <child true",
		},
		"they hold up a foreground deletion": {
			changes: []*change{added(configMaps, parent), added(beta, child), end(beta), updated(configMaps, parent, parentDeleting)},
			want:    "attempt ConfigMap a/parent; attempt Widget a/child",
			graph:   "ConfigMap a/parent foreground <child true; Widget a/child unwatched",
		},
		"they are watched again": {
			changes: []*change{added(configMaps, parent), added(beta, child), end(beta), added(widgetsAgain, child)},
			graph:   "ConfigMap a/parent <child true; Widget a/child",
		},
		"they are watched in another version": {
			changes: []*change{added(configMaps, parent), added(beta, child), end(beta), added(stable, child)},
			want:    "attempt Widget a/child", // the node is another one
			graph:   "ConfigMap a/parent <child true; Widget a/child",
		},
		"a foreground deletion that began meanwhile": {
			changes: []*change{added(beta, parent), added(secrets, child), end(beta), added(stable, parentDeleting)},
			want:    "attempt Secret a/child; attempt Widget a/parent",
			graph:   "Secret a/child; Widget a/parent foreground <child true",
		},
		"owners that changed meanwhile": {
			changes: []*change{added(configMaps, parentDeleting), added(beta, child), end(beta), added(stable, object("a", "child"))},
			want:    "attempt ConfigMap a/parent; attempt Widget a/child",
			graph:   "ConfigMap a/parent foreground; Widget a/child",
		},
		"all has been shown but for them": {
			changes: []*change{added(configMaps, parent), added(beta, child), added(beta, object("a", "alone")), end(beta), shownAll(stable)},
			want:    "attempt Widget a/child",
			graph:   "ConfigMap a/parent <child true; Widget a/child unwatched",
		},
		"all of another kind has been shown": {
			changes: []*change{added(configMaps, parent), added(beta, child), end(beta), shownAll(configMaps)},
			graph:   "ConfigMap a/parent <child true; Widget a/child unwatched",
		},
		"they are refuted": {
			changes: []*change{added(configMaps, parentDeleting), added(beta, child), end(beta), refuted(beta.identityOf(child))},
			want:    "attempt ConfigMap a/parent",
			graph:   "ConfigMap a/parent foreground",
		},
		"late words of a monitor that is over": {
			changes: []*change{added(configMaps, parent), added(beta, child), end(beta), added(stable, child), added(beta, object("a", "child"))},
			graph:   "ConfigMap a/parent <child true; Widget a/child",
		},
		"late words that say it is gone": {
			changes: []*change{added(configMaps, parent), added(beta, child), end(beta), added(stable, child), lost(beta, child)},
			graph:   "ConfigMap a/parent <child true; Widget a/child",
		},
		"last words that say it is gone": {
			changes: []*change{added(configMaps, parent), added(beta, child), end(beta), lost(beta, child)},
			graph:   "ConfigMap a/parent",
		},
		"last words about something unknown": {
			changes: []*change{added(configMaps, parent), end(beta), added(beta, child)},
			want:    "attempt Widget a/child",
			graph:   "ConfigMap a/parent <child true; Widget a/child unwatched",
		},
		"shown through two resources, of which the first ends": {
			changes: []*change{added(stable, parent), added(beta, parent), added(secrets, child), end(stable)},
			graph:   "Secret a/child; Widget a/parent <child true",
		},
		"shown through two resources, which both end": {
			changes: []*change{added(stable, parent), added(beta, parent), added(secrets, child), end(beta), end(stable)},
			graph:   "Secret a/child; Widget a/parent unwatched <child true",
		},
		"shown through two resources, of which the second ends": {
			changes: []*change{added(stable, parent), added(beta, parent), added(secrets, child), end(beta)},
			graph:   "Secret a/child; Widget a/parent <child true",
		},
		"the kind is gone": {
			changes: []*change{added(configMaps, parentDeleting), added(beta, child), end(beta), {kind: changeForgotten, kinds: kinds(beta)}},
			want:    "attempt ConfigMap a/parent",
			graph:   "ConfigMap a/parent foreground",
		},
		"the kind is gone, of an owner": {
			changes: []*change{added(beta, parent), added(beta, object("a", "alone")), added(secrets, child), end(beta), {kind: changeForgotten, kinds: kinds(beta)}},
			want:    "attempt Widget a/parent",
			graph:   "Secret a/child; Widget a/parent virtual <child true",
		},
		"the kind is gone, of an owner and its dependent": {
			changes: []*change{added(beta, parent), added(beta, child), end(beta), {kind: changeForgotten, kinds: kinds(beta)}},
		},
		"the kind is gone, of an object that owns itself": {
			changes: []*change{added(beta, object("a", "x", owner("Widget", "x"))), end(beta), {kind: changeForgotten, kinds: kinds(beta)}},
		},
		"the kind is gone, of two objects that own each other": {
			changes: []*change{
				added(beta, object("a", "x", owner("Widget", "y"))), added(beta, object("a", "y", owner("Widget", "x"))),
				end(beta), {kind: changeForgotten, kinds: kinds(beta)},
			},
		},
		"a kind that is watched cannot be forgotten": {
			changes: []*change{added(configMaps, parent), {kind: changeForgotten, kinds: kinds(configMaps)}},
			graph:   "ConfigMap a/parent",
		},
	} {
		t.Run(name, func(t *testing.T) {
			beta.stopped, stable.stopped = false, false
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
			checkCounts(t, g)
		})
	}
}

// widgetsAgain is another monitor of a version that was watched before.
var widgetsAgain = widgets("v1beta1")

// checkCounts compares the counts of a graph with its nodes, and the links both ways.
func checkCounts(t *testing.T, g *graph) {
	t.Helper()
	counted := map[*monitored]int{}
	for uid, n := range g.nodes {
		if n.uid != uid || n.virtual != (n.monitored == nil) {
			t.Errorf("%s is listed as %s", n, uid)
		}
		if n.monitored != nil {
			counted[n.monitored]++
		}
		for dependent := range n.dependents {
			if g.nodes[dependent.uid] != dependent {
				t.Errorf("%s has the obsolete dependent %s", n, dependent)
			}
		}
	}
	for m, count := range g.shown {
		if counted[m] != count {
			t.Errorf("%d nodes are counted of %s, there are %d", count, m.resource, counted[m])
		}
	}
	if len(counted) != len(g.shown) {
		t.Errorf("nodes of %d monitors are counted, there are %d", len(g.shown), len(counted))
	}
}

// TestAnswersAboutUnwatchedObjects gives the graph what the API server says about an object.
func TestAnswersAboutUnwatchedObjects(t *testing.T) {
	parent := object("a", "parent", deleted(foreground))
	for name, c := range map[string]struct {
		answer  *metav1.PartialObjectMetadata
		watched bool
		want    string
		graph   string
	}{
		"nothing has changed": {
			answer: object("a", "child", owner("ConfigMap", "parent", blocking)),
			graph:  "ConfigMap a/parent foreground <child true; Widget a/child unwatched",
		},
		"it does not refer to its owner any more": {
			answer: object("a", "child"),
			want:   "attempt ConfigMap a/parent",
			graph:  "ConfigMap a/parent foreground; Widget a/child unwatched",
		},
		"it is to delete its dependents": {
			answer: object("a", "child", owner("ConfigMap", "parent", blocking), deleted(foreground)),
			want:   "attempt Widget a/child",
			graph:  "ConfigMap a/parent foreground <child true; Widget a/child unwatched foreground",
		},
		"it is to orphan its dependents": {
			answer: object("a", "child", owner("ConfigMap", "parent", blocking), deleted(orphan)),
			want:   "orphan Widget a/child",
			graph:  "ConfigMap a/parent foreground <child true; Widget a/child unwatched",
		},
		"an informer shows it again": {
			answer: object("a", "child"), watched: true,
			graph: "ConfigMap a/parent foreground <child true; Widget a/child",
		},
	} {
		t.Run(name, func(t *testing.T) {
			beta := widgets("v1beta1")
			g := newGraph(clock.RealClock{})
			child := object("a", "child", owner("ConfigMap", "parent", blocking))
			g.apply(added(configMaps, parent))
			g.apply(added(beta, child))
			if !c.watched {
				g.apply(end(beta))
			}
			answer := &change{kind: changeAnswered, node: g.nodes["child"], new: c.answer}
			if got := told(g.apply(answer)); got != c.want {
				t.Errorf("what follows is %q, want %q", got, c.want)
			}
			if got := held(g); got != c.graph {
				t.Errorf("the graph is\n%s\nwant\n%s", got, c.graph)
			}
			if again := told(g.apply(answer)); len(again) > 0 && again != "orphan Widget a/child" {
				t.Errorf("the same answer makes for %q, without end", again)
			}
			if g.apply(&change{kind: changeAnswered, node: &node{identity: g.nodes["child"].identity}, new: c.answer}); held(g) != c.graph {
				t.Error("an obsolete node was changed")
			}
		})
	}
}

// served makes a kind known to the mapper of a world, in a version.
func (w *world) serve(version string) {
	mapper := newMapper().(*meta.DefaultRESTMapper)
	if version != "" {
		mapper.Add(schema.GroupVersionKind{Group: "x", Version: version, Kind: "Widget"}, meta.RESTScopeNamespace)
	}
	w.Mapper = mapper
}

// family is an owner and a dependent of a kind that is watched no more, and the API server
// that has the dependent in another version.
func family(t *testing.T, finalizer string, edits ...func(*metav1.ObjectMeta)) *world {
	t.Helper()
	beta := widgets("v1beta1")
	child := object("a", "child", append(edits, owner("ConfigMap", "parent", blocking))...)
	parent := typed(configMaps, object("a", "parent", deleted(finalizer)))
	w := newWorld(t, parent, typed(widgets("v1"), child.DeepCopy()))
	w.graph.apply(added(configMaps, parent))
	w.graph.apply(added(beta, child))
	w.graph.apply(end(beta))
	return w
}

// TestOrphaningOfUnwatchedDependents goes through whatever version is served, and waits for one.
// Pins GC-89.
func TestOrphaningOfUnwatchedDependents(t *testing.T) {
	w := family(t, orphan)
	w.serve("")
	if err := w.attemptToOrphan(t.Context(), w.node("parent")); err == nil || len(w.writes()) > 0 {
		t.Errorf("the owner of a dependent that cannot be found is let go: %v, %v", err, w.writes())
	}
	w.serve("v1")
	broken := true
	w.server.PrependReactor("*", "widgets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return broken, nil, apierrors.NewInternalError(errors.New("conversion webhook failed"))
	})
	if err := w.attemptToOrphan(t.Context(), w.node("parent")); err == nil || slices.ContainsFunc(w.writes(), func(s string) bool { return strings.HasPrefix(s, "patch parent") }) {
		t.Errorf("the owner of a dependent that cannot be changed is let go: %v, %v", err, w.writes())
	}
	broken = false
	w.server.ClearActions()
	if err := w.attemptToOrphan(t.Context(), w.node("parent")); err != nil {
		t.Fatal(err)
	}
	if got := w.writes(); len(got) != 2 || !strings.HasPrefix(got[0], "patch child") || !strings.HasPrefix(got[1], "patch parent") {
		t.Errorf("the writes are %q", got)
	}
	if left := w.attempt.left(); len(left) != 1 || left[0].name != "child" {
		t.Errorf("to be looked at are %v, want the dependent", left)
	}
}

// TestForegroundDeletionOfUnwatchedDependents deletes a dependent that blocks, and does not let
// its owner go before an answer says that it is gone.
// Pins GC-89.
func TestForegroundDeletionOfUnwatchedDependents(t *testing.T) {
	w := family(t, foreground)
	parent, child := w.node("parent"), w.node("child")
	w.serve("")
	if err := w.attemptToDelete(t.Context(), child); !reconcile.IsExpected(err) {
		t.Errorf("a dependent of a kind that is not served: %v", err)
	}
	if err := w.attemptToDelete(t.Context(), parent); err != nil || len(w.writes()) > 0 {
		t.Errorf("the owner does not wait: %v, %v", err, w.writes())
	}
	w.serve("v1")
	if err := w.attemptToDelete(t.Context(), child); !reconcile.IsExpected(err) {
		t.Errorf("it is not looked at again: %v", err)
	}
	if err := w.attemptToDelete(t.Context(), parent); err != nil || !slices.Equal(w.writes(), []string{"delete child Background child@1"}) {
		t.Errorf("%v, the writes are %q", err, w.writes())
	}
	if err := w.attemptToDelete(t.Context(), child); err != nil || w.node("child") != nil {
		t.Errorf("%v, or it is still there", err)
	}
	if err := w.attemptToDelete(t.Context(), parent); err != nil || len(w.writes()) != 2 {
		t.Errorf("%v, the writes are %q", err, w.writes())
	}
}

// TestUnwatchedObjectsAreJudgedLive has the graph remember an object as it is not any more.
// Pins GC-89.
func TestUnwatchedObjectsAreJudgedLive(t *testing.T) {
	for name, c := range map[string]struct {
		now     []func(*metav1.ObjectMeta)
		answer  error
		writes  []string
		blocked bool
		failed  bool
	}{
		"its owner is gone":          {now: []func(*metav1.ObjectMeta){owner("ConfigMap", "none")}, writes: []string{"delete child Background child@1"}},
		"it got an owner that lives": {now: []func(*metav1.ObjectMeta){owner("Node", "node")}},
		"it has no owner any more":   {},
		"it is being deleted":        {now: []func(*metav1.ObjectMeta){owner("ConfigMap", "parent", blocking), deleted("x")}, blocked: true},
		"it cannot be read":          {answer: errors.New("boom"), blocked: true, failed: true},
		"its resource is not there":  {answer: apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "404 page not found", 0, true), blocked: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := family(t, foreground)
			w.serve("v1")
			for _, o := range []*metav1.PartialObjectMetadata{typed(nodes, object("", "node"))} {
				if err := w.server.Tracker().Add(o); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.server.Tracker().Update(widgets("v1").resource, typed(widgets("v1"), object("a", "child", c.now...)), "a"); err != nil {
				t.Fatal(err)
			}
			w.server.PrependReactor("get", "widgets", func(clienttesting.Action) (bool, runtime.Object, error) { return c.answer != nil, nil, c.answer })
			err := w.attemptToDelete(t.Context(), w.node("child"))
			if err == nil || c.failed == reconcile.IsExpected(err) {
				t.Errorf("the outcome is %v", err)
			}
			if got := w.writes(); !slices.Equal(got, c.writes) {
				t.Errorf("the writes are %q, want %q", got, c.writes)
			}
			if blocking, _ := w.graph.blockers(w.node("parent")); (blocking > 0) != c.blocked {
				t.Errorf("%d dependents block the owner", blocking)
			}
		})
	}
}

// TestAnObjectOfAKindThatHasAnotherScopeNow is looked for where it was: a definition was deleted, with all objects, and made
// again with another scope, while nobody watched.
// Pins GC-118.
func TestAnObjectOfAKindThatHasAnotherScopeNow(t *testing.T) {
	for name, c := range map[string]struct {
		scope       string // of the definition, empty for none
		established metav1.ConditionStatus
		unreadable  bool
		gone        bool
	}{
		"it has no namespaces any more":        {scope: "Cluster", established: metav1.ConditionTrue, gone: true},
		"it is as before, but not served yet":  {scope: "Namespaced", established: metav1.ConditionTrue},
		"it has another scope, but is not yet": {scope: "Cluster", established: metav1.ConditionFalse},
		"it has no definition":                 {},
		"its definition cannot be read":        {scope: "Cluster", established: metav1.ConditionTrue, unreadable: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := family(t, foreground)
			w.serve("v1")
			w.server.PrependReactor("get", "widgets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, noResource() })
			if c.scope != "" {
				must.Get(w.Dynamic.Resource(customresources.Definitions).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
					"metadata": map[string]any{"name": "widgets.x"},
					"spec":     map[string]any{"scope": c.scope},
					"status":   map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": string(c.established)}}},
				}}, metav1.CreateOptions{}))(t)
			}
			w.Dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return c.unreadable, nil, errors.New("boom")
			})
			if err := w.attemptToDelete(t.Context(), w.node("child")); c.gone == (err != nil) {
				t.Errorf("the outcome is %v", err)
			}
			if blocking, _ := w.graph.blockers(w.node("parent")); (blocking == 0) != c.gone {
				t.Errorf("%d dependents block the owner", blocking)
			}
		})
	}
}

// TestDependentsThatComeWhileOthersAreOrphaned are orphaned too before the owner goes.
// Pins GC-96.
func TestDependentsThatComeWhileOthersAreOrphaned(t *testing.T) {
	claim := owner("ConfigMap", "parent")
	parent := typed(configMaps, object("a", "parent", deleted(orphan)))
	w := newWorld(t, parent, typed(secrets, object("a", "child", claim)), typed(secrets, object("a", "late", claim)))
	w.graph.apply(added(configMaps, parent))
	w.graph.apply(added(secrets, object("a", "child", claim)))
	w.server.PrependReactor("patch", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		w.graph.apply(added(secrets, object("a", "late", claim)))
		return false, nil, nil
	})
	if err := w.attemptToOrphan(t.Context(), w.node("parent")); !reconcile.IsExpected(err) {
		t.Errorf("the owner was released too early: %v", err)
	}
	if err := w.attemptToOrphan(t.Context(), w.node("parent")); err != nil {
		t.Error(err)
	}
	if got := w.writes(); len(got) != 4 || !strings.HasPrefix(got[3], "patch parent") {
		t.Errorf("the writes are %q", got)
	}
}
