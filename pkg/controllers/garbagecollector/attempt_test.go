package garbagecollector

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// TestAttempt runs one attempt on an object of the graph, with nothing in any cache.
func TestAttempt(t *testing.T) {
	child := func(edits ...func(*metav1.ObjectMeta)) *metav1.PartialObjectMetadata {
		return typed(secrets, object("a", "child", edits...))
	}
	parent := func(edits ...func(*metav1.ObjectMeta)) *metav1.PartialObjectMetadata {
		return typed(configMaps, object("a", "parent", edits...))
	}
	claim := owner("ConfigMap", "parent")
	anew := func(m *metav1.ObjectMeta) { m.UID = "anew" }
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "child")
	unsupported := apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", schema.GroupResource{}, "", "", 0, false)
	for name, c := range map[string]struct {
		server   []runtime.Object
		graph    []*change
		attempt  string
		fail     map[string]error // by verb and resource
		vanishes bool             // when it is deleted
		writes   []string
		retried  bool // as expected
		failed   bool // with an error
	}{
		"GC-44e: no owners":                    {server: []runtime.Object{child()}, graph: []*change{added(secrets, child())}},
		"GC-44g: a live owner":                 {server: []runtime.Object{child(claim), parent()}, graph: []*change{added(secrets, child(claim))}},
		"GC-44i, GC-53: no live owner":         {server: []runtime.Object{child(claim)}, graph: []*change{added(secrets, child(claim))}, writes: []string{"delete child Background child@1"}},
		"GC-48: another UID":                   {server: []runtime.Object{child(claim), parent(anew)}, graph: []*change{added(secrets, child(claim))}, writes: []string{"delete child Background child@1"}},
		"GC-44c: the item is gone":             {graph: []*change{added(secrets, child(claim))}},
		"GC-44c: the item is anew":             {server: []runtime.Object{child(anew)}, graph: []*change{added(secrets, child(claim))}},
		"GC-44a, GC-68: being deleted":         {server: []runtime.Object{child(claim, deleted("x"))}, graph: []*change{added(secrets, child(claim, deleted("x")))}},
		"GC-44i: asks to orphan":               {server: []runtime.Object{child(claim, func(m *metav1.ObjectMeta) { m.Finalizers = []string{orphan} })}, graph: []*change{added(secrets, child(claim))}, writes: []string{"delete child Orphan child@1"}},
		"GC-43, GC-47, GC-64: an unknown kind": {server: []runtime.Object{child(owner("Gadget", "parent"))}, graph: []*change{added(secrets, child(owner("Gadget", "parent")))}, retried: true},
		"GC-44f, GC-48: owner cannot be read": {
			server: []runtime.Object{child(claim)}, graph: []*change{added(secrets, child(claim))},
			fail: map[string]error{"get configmaps": errors.New("boom")}, failed: true,
		},
		"GC-91: owner is not served any more": {
			server: []runtime.Object{child(claim)}, graph: []*change{added(secrets, child(claim))},
			fail:    map[string]error{"get configmaps": apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "404 page not found", 0, true)},
			retried: true,
		},
		"GC-44j: gone when it is deleted": {
			server: []runtime.Object{child(claim)}, graph: []*change{added(secrets, child(claim))}, vanishes: true,
			fail:   map[string]error{"delete secrets": missing},
			writes: []string{"delete child Background child@1"},
		},
		"GC-101: a webhook refuses its deletion as if it did not exist": {
			server: []runtime.Object{child(claim)}, graph: []*change{added(secrets, child(claim)), added(secrets, object("a", "grandchild", owner("Secret", "child")))},
			fail:   map[string]error{"delete secrets": missing},
			writes: []string{"delete child Background child@1"}, failed: true,
		},
		"GC-101: a webhook refuses to remove an owner": {
			server: []runtime.Object{child(claim, owner("ConfigMap", "other")), parent()}, graph: []*change{added(secrets, child(claim, owner("ConfigMap", "other")))},
			fail:   map[string]error{"patch secrets": missing},
			writes: []string{`patch child {"metadata":{"ownerReferences":[{"$patch":"delete","uid":"other"}],"uid":"child"}}`}, failed: true,
		},
		"GC-101: a webhook refuses to release an owner": {
			server: []runtime.Object{parent(deleted(foreground))}, graph: []*change{added(configMaps, parent(deleted(foreground)))}, attempt: "parent",
			fail:   map[string]error{"patch configmaps": missing},
			writes: []string{`patch parent {"metadata":{"finalizers":null,"resourceVersion":"1"}}`}, failed: true,
		},
		"GC-102: being deleted by somebody else, with dependents": {
			server: []runtime.Object{child(claim, deleted(orphan)), parent(deleted(foreground))},
			graph:  []*change{added(secrets, child(claim)), added(secrets, object("a", "grandchild", owner("Secret", "child")))},
		},
		"GC-44g, GC-49: one of two owners is gone": {
			server: []runtime.Object{child(claim, owner("ConfigMap", "other")), parent()}, graph: []*change{added(secrets, child(claim, owner("ConfigMap", "other")))},
			writes: []string{`patch child {"metadata":{"ownerReferences":[{"$patch":"delete","uid":"other"}],"uid":"child"}}`},
		},
		"GC-50: no strategic merge patches": {
			server: []runtime.Object{child(claim, owner("ConfigMap", "other")), parent()}, graph: []*change{added(secrets, child(claim, owner("ConfigMap", "other")))},
			fail: map[string]error{"patch secrets": unsupported},
			writes: []string{
				`patch child {"metadata":{"ownerReferences":[{"$patch":"delete","uid":"other"}],"uid":"child"}}`,
				`patch child {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"parent","uid":"parent"}],"resourceVersion":"1"}}`,
			},
		},
		"GC-44h: a waiting owner, with dependents": {
			server: []runtime.Object{child(claim), parent(deleted(foreground))},
			graph:  []*change{added(secrets, child(claim)), added(secrets, object("a", "grandchild", owner("Secret", "child")))},
			writes: []string{"delete child Foreground child@1"},
		},
		"GC-44h, GC-49: a cycle": {
			server: []runtime.Object{child(owner("ConfigMap", "parent", blocking)), parent(deleted(foreground))},
			graph:  []*change{added(secrets, child(owner("ConfigMap", "parent", blocking))), added(configMaps, parent(deleted(foreground), owner("Secret", "child")))},
			writes: []string{
				`patch child {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"parent","uid":"parent","blockOwnerDeletion":false}],"resourceVersion":"1","uid":"child"}}`,
				"delete child Foreground child@1",
			},
		},
		"GC-100: a cycle that changes meanwhile": {
			server: []runtime.Object{child(owner("ConfigMap", "parent", blocking)), parent(deleted(foreground))},
			graph:  []*change{added(secrets, child(owner("ConfigMap", "parent", blocking))), added(configMaps, parent(deleted(foreground), owner("Secret", "child")))},
			fail:   map[string]error{"patch secrets": apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "child", errors.New("changed"))},
			writes: []string{
				`patch child {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"parent","uid":"parent","blockOwnerDeletion":false}],"resourceVersion":"1","uid":"child"}}`,
			},
			retried: true,
		},
		"GC-100: a cycle without strategic merge patches": {
			server: []runtime.Object{child(owner("ConfigMap", "parent", blocking)), parent(deleted(foreground))},
			graph:  []*change{added(secrets, child(owner("ConfigMap", "parent", blocking))), added(configMaps, parent(deleted(foreground), owner("Secret", "child")))},
			fail:   map[string]error{"patch secrets": unsupported},
			writes: []string{
				`patch child {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"parent","uid":"parent","blockOwnerDeletion":false}],"resourceVersion":"1","uid":"child"}}`,
				`patch child {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"parent","uid":"parent","blockOwnerDeletion":false}],"resourceVersion":"1"}}`,
				"delete child Foreground child@1",
			},
		},
		"GC-108: a cycle that is deleted in the foreground as a whole": {
			server: []runtime.Object{child(owner("ConfigMap", "parent", blocking), deleted(foreground)), parent(owner("Secret", "child", blocking), deleted(foreground))},
			graph: []*change{
				added(secrets, child(owner("ConfigMap", "parent", blocking), deleted(foreground))),
				added(configMaps, parent(owner("Secret", "child", blocking), deleted(foreground))),
			},
			writes: []string{
				`patch child {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"parent","uid":"parent","blockOwnerDeletion":false}],"resourceVersion":"1","uid":"child"}}`,
			},
		},
		"GC-108: an object that owns itself": {
			server: []runtime.Object{child(owner("Secret", "child", blocking), deleted(foreground))},
			graph:  []*change{added(secrets, child(owner("Secret", "child", blocking), deleted(foreground)))},
			writes: []string{
				`patch child {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"child","uid":"child","blockOwnerDeletion":false}],"resourceVersion":"1","uid":"child"}}`,
			},
		},
		"GC-108, GC-112: an object that owns itself twice": {
			server: []runtime.Object{child(owner("Secret", "child"), owner("ConfigMap", "child", blocking), deleted(foreground))},
			graph:  []*change{added(secrets, child(owner("Secret", "child"), owner("ConfigMap", "child", blocking), deleted(foreground)))},
			writes: []string{
				`patch child {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"child","uid":"child","blockOwnerDeletion":false},{"apiVersion":"v1","kind":"ConfigMap","name":"child","uid":"child","blockOwnerDeletion":false}],"resourceVersion":"1"}}`,
			},
		},
		"GC-108: an owner of the cycle, which is none of it": {
			server: []runtime.Object{child(owner("ConfigMap", "parent", blocking), deleted(foreground)), parent(owner("Secret", "child", blocking), deleted(foreground))},
			graph: []*change{
				added(secrets, child(owner("ConfigMap", "parent", blocking), deleted(foreground))),
				added(configMaps, parent(owner("Secret", "child", blocking), owner("Secret", "above", blocking), deleted(foreground))),
				added(secrets, object("a", "above", deleted(foreground))),
			},
			attempt: "above",
		},
		"GC-108: one of the cycle is not deleted in the foreground any more": {
			server: []runtime.Object{child(owner("ConfigMap", "parent", blocking), deleted("x")), parent(owner("Secret", "child", blocking), deleted(foreground))},
			graph: []*change{
				added(secrets, child(owner("ConfigMap", "parent", blocking), deleted(foreground))),
				added(configMaps, parent(owner("Secret", "child", blocking), deleted(foreground))),
			},
		},
		"GC-108: a cycle in which one does not block": {
			server: []runtime.Object{child(owner("ConfigMap", "parent"), deleted(foreground)), parent(owner("Secret", "child", blocking), deleted(foreground))},
			graph: []*change{
				added(secrets, child(owner("ConfigMap", "parent"), deleted(foreground))),
				added(configMaps, parent(owner("Secret", "child", blocking), deleted(foreground))),
			},
		},
		"GC-43, GC-47: a cluster-scoped object with a namespaced owner": {
			server: []runtime.Object{typed(nodes, object("", "child", claim)), parent()}, graph: []*change{added(nodes, object("", "child", claim))},
		},
		"GC-115: a cluster-scoped object with a namespaced owner, which no informer shows": {
			server: []runtime.Object{typed(nodes, object("", "child", claim))}, attempt: "child", retried: true,
			graph: []*change{added(secrets, object("a", "grandchild", owner("Node", "child")))},
		},
		"GC-43: a virtual owner that exists": {
			server: []runtime.Object{parent()}, graph: []*change{added(secrets, child(claim))}, attempt: "parent", retried: true,
		},
		"GC-44c: a virtual owner that does not": {graph: []*change{added(secrets, child(claim))}, attempt: "parent"},
		"GC-45, GC-44d: foreground deletion, blocked": {
			server: []runtime.Object{parent(deleted(foreground))}, attempt: "parent",
			graph: []*change{added(configMaps, parent(deleted(foreground))), added(secrets, child(owner("ConfigMap", "parent", blocking)))},
		},
		"GC-45, GC-52: foreground deletion, free": {
			server: []runtime.Object{parent(deleted(foreground, "x"))}, attempt: "parent",
			graph:  []*change{added(configMaps, parent(deleted(foreground))), added(secrets, child(claim))},
			writes: []string{`patch parent {"metadata":{"finalizers":["x"],"resourceVersion":"1"}}`},
		},
		"GC-116: foreground deletion, a cluster-scoped object blocks": {
			server: []runtime.Object{parent(deleted(foreground, "x"))}, attempt: "parent",
			graph: []*change{
				added(configMaps, parent(deleted(foreground, "x"))), added(nodes, object("", "child", owner("ConfigMap", "parent", blocking))),
			},
			writes: []string{`patch parent {"metadata":{"finalizers":["x"],"resourceVersion":"1"}}`},
		},
		"GC-116: foreground deletion, a cluster-scoped object that was shown first blocks": {
			server: []runtime.Object{parent(deleted(foreground, "x"))}, attempt: "parent",
			graph: []*change{
				added(nodes, object("", "child", owner("ConfigMap", "parent", blocking))), added(configMaps, parent(deleted(foreground, "x"))),
			},
			writes: []string{`patch parent {"metadata":{"finalizers":["x"],"resourceVersion":"1"}}`},
		},
		"GC-45, GC-116: foreground deletion, blocked by what was shown after an object of another namespace": {
			server: []runtime.Object{parent(deleted(foreground, "x"))}, attempt: "parent",
			graph: []*change{
				added(secrets, object("b", "stray", owner("ConfigMap", "parent", blocking))), added(secrets, child(owner("ConfigMap", "parent", blocking))),
				added(configMaps, parent(deleted(foreground, "x"))),
			},
		},
		"GC-93: foreground deletion of what was made anew": {
			server: []runtime.Object{parent(anew, deleted(foreground))}, attempt: "parent",
			graph: []*change{added(configMaps, parent(deleted(foreground)))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.server...)
			for on, err := range c.fail {
				verb, resource, _ := strings.Cut(on, " ")
				first := true
				w.server.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
					failing := first || verb != "patch"
					first = false
					if c.vanishes {
						_ = w.server.Tracker().Delete(secrets.resource, "a", "child")
					}
					return failing, nil, err
				})
			}
			for _, change := range c.graph {
				w.graph.apply(change)
			}
			if c.attempt == "" {
				c.attempt = "child"
			}
			err := w.attemptToDelete(t.Context(), w.node(c.attempt))
			if c.retried != (err != nil && reconcile.IsExpected(err)) || c.failed != (err != nil && !reconcile.IsExpected(err)) {
				t.Errorf("the outcome is %v", err)
			}
			if c.failed && w.node(c.attempt) == nil {
				t.Error("it is not in the graph any more")
			}
			if got := w.writes(); !slices.Equal(got, c.writes) {
				t.Errorf("the writes are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.writes, "\n"))
			}
		})
	}
}

// TestConflictOnDelete repeats a delete only if the owners are those that were judged, and its dependents are to become
// what they were to. Pins GC-53, GC-86 and GC-102.
func TestConflictOnDelete(t *testing.T) {
	child := typed(secrets, object("a", "child", owner("ConfigMap", "parent")))
	newer := func(edits ...func(*metav1.ObjectMeta)) *metav1.PartialObjectMetadata {
		return typed(secrets, object("a", "child", append(edits, func(m *metav1.ObjectMeta) { m.ResourceVersion = "2" })...))
	}
	for name, c := range map[string]struct {
		now    *metav1.PartialObjectMetadata
		writes []string
		failed bool
	}{
		"other changes":      {newer(owner("ConfigMap", "parent")), []string{"delete child Background child@1", "delete child Background child"}, false},
		"an owner was added": {newer(owner("ConfigMap", "parent"), owner("ConfigMap", "new")), []string{"delete child Background child@1"}, true},
		"it is deleted":      {newer(owner("ConfigMap", "parent"), deleted(orphan)), []string{"delete child Background child@1"}, false},
		"another policy": {newer(owner("ConfigMap", "parent"), func(m *metav1.ObjectMeta) { m.Finalizers = []string{orphan} }),
			[]string{"delete child Background child@1"}, true},
		"no change at all": {child, []string{"delete child Background child@1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, child)
			first := true
			w.server.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
				if !first {
					return false, nil, nil
				}
				first = false
				if err := w.server.Tracker().Update(secrets.resource, c.now, "a"); err != nil {
					t.Error(err)
				}
				return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "child", errors.New("changed"))
			})
			w.graph.apply(added(secrets, child))
			err := w.attemptToDelete(t.Context(), w.node("child"))
			if c.failed != apierrors.IsConflict(err) || !c.failed && err != nil {
				t.Errorf("the outcome is %v", err)
			}
			if got := w.writes(); !slices.Equal(got, c.writes) {
				t.Errorf("the writes are %q, want %q", got, c.writes)
			}
		})
	}
}

// TestKindsThatGoDuringADeletion say nothing about the object. Pins GC-91.
func TestKindsThatGoDuringADeletion(t *testing.T) {
	child := typed(secrets, object("a", "child", owner("ConfigMap", "parent")))
	w := newWorld(t, child)
	w.graph.apply(added(secrets, child))
	w.server.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		w.server.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "404 page not found", 0, true)
		})
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "child", errors.New("changed"))
	})
	if err := w.attemptToDelete(t.Context(), w.node("child")); !reconcile.IsExpected(err) || w.node("child") == nil {
		t.Errorf("the outcome is %v, and the graph has %v", err, w.node("child"))
	}
}

// TestAnOwnerOfNoNamespaceIsLookedUpOnce for dependents of all namespaces. Pins GC-103.
func TestAnOwnerOfNoNamespaceIsLookedUpOnce(t *testing.T) {
	w := newWorld(t)
	for _, namespace := range []string{"a", "b"} {
		w.graph.apply(added(secrets, typed(secrets, object(namespace, "child-"+namespace, owner("Node", "parent")))))
	}
	if err := w.attemptToDelete(t.Context(), w.node("parent")); err != nil {
		t.Fatal(err)
	}
	if left := w.node("parent"); left != nil {
		t.Errorf("it is looked up again as %s", left)
	}
	if depth := w.attempt.loop.Inspect().Depth; depth != 2 {
		t.Errorf("%d dependents are examined, want 2", depth)
	}
}

// TestAnOwnerIsNotLookedUpWithoutDependents, although its kind is not served and nothing is known about it.
// Pins GC-104.
func TestAnOwnerIsNotLookedUpWithoutDependents(t *testing.T) {
	w := newWorld(t, typed(secrets, object("a", "child", owner("Gadget", "parent"))))
	w.env.Run(t, w.collector)
	w.env.EventuallyAsTimePasses(t, "the owner is looked up in vain", time.Second, func() bool {
		parent := w.node("parent")
		return parent != nil && w.attempt.loop.Retries(parent) > 1
	})
	controllertest.AwaitWatches(t, &w.server.Fake)
	if err := w.server.Tracker().Delete(secrets.resource, "a", "child"); err != nil {
		t.Fatal(err)
	}
	w.env.EventuallyAsTimePasses(t, "the owner is forgotten", time.Second, func() bool {
		return w.node("parent") == nil && len(w.attempt.left()) == 0
	})
}

// TestWhatIsAbsentIsOneClaimForAUID: that nothing is where one reference says does not concern a reference that says
// something else of the same UID (kubernetes/kubernetes#98471). Pins GC-65.
func TestWhatIsAbsentIsOneClaimForAUID(t *testing.T) {
	wrong, right := typed(secrets, object("a", "wrong", owner("Secret", "parent"))), typed(secrets, object("a", "right", owner("ConfigMap", "parent")))
	w := newWorld(t, typed(configMaps, object("a", "parent")), wrong, right)
	for _, o := range []*metav1.PartialObjectMetadata{wrong, right} {
		w.graph.apply(added(secrets, o))
	}
	for _, name := range []string{"wrong", "right"} {
		if err := w.attemptToDelete(t.Context(), w.node(name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.writes(); !slices.Equal(got, []string{"delete wrong Background wrong@1"}) {
		t.Errorf("the writes are %q", got)
	}
}

// TestRecreationInOneUpdate is about watches that missed the delete.
// Pins GC-69 and GC-92.
func TestRecreationInOneUpdate(t *testing.T) {
	var delivered []string
	m := newMonitors(nil, nil, func(metav1.Object) bool { return true }, func(c *change) { delivered = append(delivered, c.String()) })
	h := handler{m, secrets}
	old, anew := object("a", "x"), object("a", "x", func(o *metav1.ObjectMeta) { o.UID = "new" })
	h.OnUpdate(old, old)
	h.OnUpdate(old, anew)
	want := []string{"missed [v1/Secret, namespace: a, name: x, uid: x]", "observed [v1/Secret, namespace: a, name: x, uid: new]"}
	if !slices.Equal(delivered, want) {
		t.Errorf("delivered %q, want %q", delivered, want)
	}
}

// If an informer shows in one update that an owner was recreated, a single read shows that it is gone, and its
// dependents are deleted at once. An object without any needs no read. Pins GC-109.
func TestAnOwnerIsRecreatedInOneUpdate(t *testing.T) {
	w := newWorld(t,
		typed(configMaps, object("a", "parent")),
		typed(secrets, object("a", "child", owner("ConfigMap", "parent"))),
		typed(configMaps, object("a", "alone")),
	)
	w.env.Run(t, w.collector)
	w.settle(t)
	for _, name := range []string{"alone", "parent"} {
		anew := object("a", name, func(m *metav1.ObjectMeta) { m.UID, m.ResourceVersion = types.UID(name+"-anew"), "2" })
		if err := w.server.Tracker().Update(configMaps.resource, typed(configMaps, anew), "a"); err != nil {
			t.Fatal(err)
		}
	}
	controllertest.Eventually(t, "the dependent is deleted", func() bool { return len(w.writes()) > 0 })
	if got, want := w.requests(), []string{"get parent", "delete child"}; !slices.Equal(got, want) {
		t.Errorf("the requests are %q, want %q", got, want)
	}
}
