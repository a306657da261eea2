package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/runtime/informers/informerstest"
	"kcmd.dev/test/controllertest"
)

// catalogue is a discovery whose answer a test sets.
type catalogue struct {
	discovery.DiscoveryInterface
	mu    sync.Mutex
	lists []*metav1.APIResourceList
	err   error
	asked int
}

func (c *catalogue) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return c.lists, c.err
}

// looks is how often it was asked.
func (c *catalogue) looks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *catalogue) set(err error, lists ...*metav1.APIResourceList) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists, c.err = lists, err
}

func served(gv string, kinds ...string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: gv}
	for _, kind := range kinds {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: strings.ToLower(kind) + "s", Kind: kind, Namespaced: kind != "Node",
			Verbs: metav1.Verbs{"get", "list", "watch", "delete"},
		})
	}
	return list
}

// world is a collector on a fake API server.
type world struct {
	*collector
	env    *controllertest.Env
	server *metadatafake.FakeMetadataClient
	served *catalogue
}

// typed completes an object for the fake server.
func typed(m *monitored, o *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	o.APIVersion, o.Kind = m.apiVersion, m.kind
	return o
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	return newWorldServing(t, nil, objects...)
}

// newWorldServing makes a world in which a standby knows what is served.
func newWorldServing(t *testing.T, known []*metav1.APIResourceList, objects ...runtime.Object) *world {
	t.Helper()
	env := controllertest.New(t)
	env.Env.Served = func() []*metav1.APIResourceList { return known }
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{env: env, server: metadatafake.NewSimpleMetadataClient(scheme, objects...), served: &catalogue{}}
	w.served.set(nil, served("v1", "ConfigMap", "Secret", "Node"))
	env.Env.Metadata, env.Env.Discovery, env.Env.Mapper = w.server, w.served, newMapper()
	env.Env.Informers = informerstest.NewScopeWithMetadata(t, env.Fake, w.server)
	w.collector = newCollector(env.Env, config{concurrentSyncs: 2})
	return w
}

func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	v1 := schema.GroupVersion{Version: "v1"}
	mapper.Add(v1.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(v1.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(v1.WithKind("Node"), meta.RESTScopeRoot)
	return mapper
}

func (w *world) exists(t *testing.T, m *monitored, namespace, name string) bool {
	t.Helper()
	_, err := w.server.Resource(m.resource).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// writes renders the writes to the fake server.
func (w *world) writes() []string {
	var all []string
	for _, action := range w.server.Actions() {
		switch a := action.(type) {
		case clienttesting.DeleteActionImpl:
			p := a.DeleteOptions.Preconditions
			text := fmt.Sprintf("delete %s %s %s", a.Name, *a.DeleteOptions.PropagationPolicy, *p.UID)
			if p.ResourceVersion != nil {
				text += "@" + *p.ResourceVersion
			}
			all = append(all, text)
		case clienttesting.PatchActionImpl:
			all = append(all, fmt.Sprintf("patch %s %s", a.Name, a.Patch))
		}
	}
	return all
}

// node returns the node of a UID.
func (w *world) node(uid string) *node {
	w.graph.mu.RLock()
	defer w.graph.mu.RUnlock()
	for id, n := range w.graph.nodes {
		if string(id) == uid {
			return n
		}
	}
	return nil
}

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

// Pins GC-54 and GC-101.
func TestOrphaning(t *testing.T) {
	for name, refusal := range map[string]error{
		"an error": errors.New("boom"),
		"a webhook says that the dependent does not exist": apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "child"),
	} {
		t.Run(name, func(t *testing.T) { testOrphaning(t, refusal) })
	}
}

func testOrphaning(t *testing.T, refusal error) {
	parent := typed(configMaps, object("a", "parent", deleted(orphan)))
	child := typed(secrets, object("a", "child", owner("ConfigMap", "parent")))
	lostChild := object("a", "lost", owner("ConfigMap", "parent"))
	w := newWorld(t, parent, child)
	for _, change := range []*change{added(secrets, child), added(secrets, lostChild), added(configMaps, parent)} {
		w.graph.apply(change)
	}
	fails := true
	w.server.PrependReactor("patch", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if name := a.(clienttesting.PatchAction).GetName(); name == "child" && fails {
			return true, nil, refusal
		}
		return false, nil, nil
	})
	if err := w.attemptToOrphan(t.Context(), w.node("parent")); err == nil {
		t.Error("the failure is not reported")
	}
	if slices.ContainsFunc(w.writes(), func(s string) bool { return strings.HasPrefix(s, "patch parent") }) {
		t.Error("the owner was released before its dependents")
	}
	fails = false
	if err := w.attemptToOrphan(t.Context(), w.node("parent")); err != nil {
		t.Errorf("a dependent that is gone stops it: %v", err)
	}
	if last := w.writes(); last[len(last)-1] != `patch parent {"metadata":{"finalizers":null,"resourceVersion":"1"}}` {
		t.Errorf("the last write is %s", last[len(last)-1])
	}
}

// Pins GC-52.
func TestFinalizerConflicts(t *testing.T) {
	parent := typed(configMaps, object("a", "parent", deleted(foreground)))
	w := newWorld(t, parent)
	w.graph.apply(added(configMaps, parent))
	w.server.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "parent", errors.New("changed"))
	})
	err := w.attemptToDelete(t.Context(), w.node("parent"))
	want := "updateMaxRetries(4) has reached. The garbage collector will retry later for owner [v1/ConfigMap, namespace: a, name: parent, uid: parent]"
	if err == nil || err.Error() != want || len(w.writes()) != 4 {
		t.Errorf("after %d writes: %v", len(w.writes()), err)
	}
}

// A finalizer is removed from the state in the cache, and only if that is outdated from one that is read.
// Pins GC-99.
func TestFinalizersAreRemovedWithoutARead(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "parent", errors.New("changed"))
	for name, tc := range map[string]struct {
		first error // of the first patch
		want  []string
	}{
		"the cache is up to date": {nil, []string{"patch"}},
		"the cache is behind":     {conflict, []string{"patch", "get", "patch"}},
		"it is gone":              {apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "parent"), []string{"patch", "get"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, typed(configMaps, object("a", "parent", deleted("x", foreground))))
			var refused atomic.Bool
			w.server.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				if apierrors.IsNotFound(tc.first) {
					_ = w.server.Tracker().Delete(configMaps.resource, "a", "parent")
				}
				return tc.first != nil && refused.CompareAndSwap(false, true), nil, tc.first
			})
			w.env.Run(t, w.collector)
			w.settle(t)
			var got []string
			controllertest.Eventually(t, "the finalizer is removed", func() bool {
				got = nil
				for _, action := range w.server.Actions() {
					if verb := action.GetVerb(); verb != "list" && verb != "watch" {
						got = append(got, verb)
					}
				}
				return len(got) >= len(tc.want)
			})
			if !slices.Equal(got, tc.want) {
				t.Errorf("the requests are %q, want %q", got, tc.want)
			}
			for _, write := range w.writes() {
				if want := `patch parent {"metadata":{"finalizers":["x"],"resourceVersion":"1"}}`; write != want {
					t.Errorf("the write is %s, want %s", write, want)
				}
			}
		})
	}
}

// The finalizer was removed, and a second request to delete the object has brought it back. The watch was interrupted
// meanwhile, so that both are one update, in which nothing seems to have changed.
//
// Pins GC-107.
func TestAFinalizerThatComesBackUnseen(t *testing.T) {
	again := func(m *metav1.ObjectMeta) { m.ResourceVersion = "3" }
	for name, tc := range map[string]struct {
		finalizer string
		try       func(*world, context.Context, *node) error
		want      string
	}{
		"GC-107: foreground": {foreground, func(w *world, ctx context.Context, n *node) error {
			return w.attemptToDelete(ctx, n)
		}, "attempt ConfigMap a/parent"},
		"GC-107: orphan": {orphan, func(w *world, ctx context.Context, n *node) error {
			return w.attemptToOrphan(ctx, n)
		}, "orphan ConfigMap a/parent"},
	} {
		t.Run(name, func(t *testing.T) {
			before := typed(configMaps, object("a", "parent", deleted("x", tc.finalizer)))
			w := newWorld(t, before)
			w.graph.apply(added(configMaps, before))
			var got string
			m := newMonitors(w.Informers, w.Clock, w.graph.knows, func(c *change) { got += told(w.graph.apply(c)) })
			if err := tc.try(w, t.Context(), w.node("parent")); err != nil {
				t.Fatal(err)
			}
			if writes := w.writes(); len(writes) != 1 {
				t.Fatalf("the writes are %q", writes)
			}
			back := object("a", "parent", deleted("x", tc.finalizer), again)
			handler{m, configMaps}.OnUpdate(before, back)
			if got != tc.want {
				t.Errorf("the update has %q done, want %q", got, tc.want)
			}
			got = ""
			handler{m, configMaps}.OnUpdate(back, object("a", "parent", deleted("x")))
			handler{m, configMaps}.OnUpdate(object("a", "parent", deleted("x")), object("a", "parent", deleted("x"), again))
			if got != "" {
				t.Errorf("without the finalizer, %q is done", got)
			}
			if !w.graph.knows(back) {
				t.Error("updates that change nothing are still looked at")
			}
		})
	}
}

// TestCascade runs everything: a chain of three, and what it costs.
// Pins GC-82 and GC-86.
func TestCascade(t *testing.T) {
	w := newWorld(t,
		typed(configMaps, object("a", "top")),
		typed(secrets, object("a", "middle", owner("ConfigMap", "top"))),
		typed(configMaps, object("a", "bottom", owner("Secret", "middle"))),
		typed(configMaps, object("a", "bystander", owner("Node", "node"))),
		typed(nodes, object("", "node")),
	)
	w.env.Run(t, w.collector)
	w.settle(t)
	if err := w.server.Resource(configMaps.resource).Namespace("a").Delete(t.Context(), "top", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletionPropagation), Preconditions: metav1.NewUIDPreconditions("top")}); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "the chain is gone", func() bool { return !w.exists(t, configMaps, "a", "bottom") && !w.exists(t, secrets, "a", "middle") })
	if !w.exists(t, configMaps, "a", "bystander") {
		t.Error("an object with a live owner is gone")
	}
	if got := w.writes()[1:]; !slices.Equal(got, []string{"delete middle Background middle@1", "delete bottom Background bottom@1"}) {
		t.Errorf("the writes are %q", got)
	}
}

// settle waits until everything has been replayed and looked at, and changes are noticed.
func (w *world) settle(t *testing.T) {
	t.Helper()
	controllertest.Eventually(t, "the start is over", func() bool { return w.startWorker.isOpen() && len(w.attempt.left()) == 0 })
	controllertest.AwaitWatches(t, &w.server.Fake)
}

// TestRestart deletes an owner between two instances and leaves work undone in the first.
// Pins GC-94.
func TestRestart(t *testing.T) {
	first := newWorld(t,
		typed(configMaps, object("a", "missed")),
		typed(secrets, object("a", "of-missed", owner("ConfigMap", "missed"))),
		typed(configMaps, object("a", "failing")),
		typed(secrets, object("a", "of-failing", owner("ConfigMap", "failing"))),
		typed(configMaps, object("a", "kept")),
		typed(secrets, object("a", "of-kept", owner("ConfigMap", "kept"))),
	)
	var mu sync.Mutex
	tried, refuse := 0, true
	first.server.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		tried++
		return refuse, nil, errors.New("boom")
	})
	stop := first.env.Run(t, first.collector)
	first.settle(t)
	remove := func(name string) {
		if err := first.server.Tracker().Delete(configMaps.resource, "a", name); err != nil {
			t.Fatal(err)
		}
	}
	remove("failing")
	controllertest.Eventually(t, "the dependent is tried", func() bool { mu.Lock(); defer mu.Unlock(); return tried > 0 })
	stop()
	remove("missed")
	left := first.HandOver()
	if len(left.monitored) != 3 || !slices.ContainsFunc(left.attempt, func(n *node) bool { return n.name == "of-failing" }) {
		t.Errorf("handed over: %d resources, %v", len(left.monitored), left.attempt)
	}

	mu.Lock()
	refuse = false
	mu.Unlock()
	env := first.env.Env
	env.Succession = &controller.Succession{}
	env.Succession.Leave(left)
	env.Informers = informerstest.NewScopeWithMetadata(t, first.env.Fake, first.server)
	env.Metrics = controllertest.New(t).Metrics
	second := *first
	second.collector = newCollector(env, config{concurrentSyncs: 2})
	first.server.ClearActions()
	first.served.set(errors.New("discovery is down"))
	second.env.Run(t, second.collector)
	// Neither discovery nor the clock is needed.
	controllertest.Eventually(t, "what was missed and what failed is gone", func() bool {
		return !second.exists(t, secrets, "a", "of-missed") && !second.exists(t, secrets, "a", "of-failing")
	})
	if !second.exists(t, secrets, "a", "of-kept") {
		t.Error("an object with a live owner is gone")
	}
	for _, action := range first.server.Actions() {
		if get, ok := action.(clienttesting.GetAction); ok && get.GetName() == "kept" {
			t.Error("a known owner is looked up again")
		}
	}
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

// TestAKindThatCannotBeListedHoldsUpNothingElse for longer than a time limit (kubernetes/kubernetes#101078). Pins GC-55.
func TestAKindThatCannotBeListedHoldsUpNothingElse(t *testing.T) {
	w := newWorld(t, typed(configMaps, object("a", "orphan", owner("ConfigMap", "gone"))), typed(configMaps, object("a", "kept")))
	w.refuseLists("secrets")
	w.env.Run(t, w.collector)
	w.env.EventuallyAsTimePasses(t, "what has no owner is gone", time.Second, func() bool { return !w.exists(t, configMaps, "a", "orphan") })
	if passed := w.env.Clock.Since(controllertest.Epoch); passed < 30*time.Second {
		t.Errorf("after %v", passed)
	}
	if !w.exists(t, configMaps, "a", "kept") {
		t.Error("an object without an owner is gone")
	}
}

func TestResourcesFollowDiscovery(t *testing.T) {
	w := newWorld(t)
	failing := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "x", Version: "v1"}: errors.New("down")}}
	names := func() string {
		var all []string
		for resource := range w.monitors.watched() {
			all = append(all, resource.Resource)
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	go func() { // the graph takes part in the sync
		for range w.slots {
		}
	}()
	ctx := w.env.Context()
	for _, step := range []struct {
		name  string
		err   error
		lists []*metav1.APIResourceList
		want  string
		fails string
	}{
		{"GC-10: first", nil, []*metav1.APIResourceList{served("v1", "ConfigMap", "Secret")}, "configmaps secrets", "0"},
		{"GC-58: more", nil, []*metav1.APIResourceList{served("v1", "ConfigMap", "Secret"), served("x/v1", "Gadget")}, "configmaps gadgets secrets", "0"},
		{"GC-57: a group is down", failing, []*metav1.APIResourceList{served("v1", "ConfigMap", "Secret")}, "configmaps gadgets secrets", "0"},
		{"GC-56, GC-61: all is down", errors.New("down"), nil, "configmaps gadgets secrets", "1"},
		{"GC-56, GC-61: nothing is served", nil, nil, "configmaps gadgets secrets", "2"},
		{"the version that is watched cannot be asked", failing, []*metav1.APIResourceList{served("v1", "ConfigMap", "Secret"), served("x/v1beta1", "Gadget")}, "configmaps gadgets secrets", "2"},
		{"GC-56: a version is nonsense", nil, []*metav1.APIResourceList{served("v1", "ConfigMap", "Secret"), served("a/b/c", "Gadget")}, "configmaps secrets", "2"},
		{"GC-58: fewer", nil, []*metav1.APIResourceList{served("v1", "Secret")}, "secrets", "2"},
	} {
		w.served.set(step.err, step.lists...)
		w.refresh(ctx)
		if got := names(); got != step.want {
			t.Errorf("%s: watched are %s, want %s", step.name, got, step.want)
		}
		want := "# HELP garbagecollector_controller_resources_sync_error_total [ALPHA] Number of garbage collector resources sync errors\n" +
			"# TYPE garbagecollector_controller_resources_sync_error_total counter\ngarbagecollector_controller_resources_sync_error_total " + step.fails + "\n"
		if err := testutil.GatherAndCompare(w.env.Metrics, strings.NewReader(want), "garbagecollector_controller_resources_sync_error_total"); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}

// refusing is a scope without an informer of gadgets.
type refusing struct{ controller.Scope }

func (r refusing) AnyFor(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if resource.Resource == "gadgets" {
		return nil, errors.New("refused")
	}
	return r.Scope.AnyFor(resource)
}

// TestAResourceThatComesBackIsWatchedAgain: its watch ended when another resource could not be watched, so the set that
// was recorded before is no longer the one that is watched. Pins GC-58.
func TestAResourceThatComesBackIsWatchedAgain(t *testing.T) {
	w := newWorld(t)
	w.monitors.scope = refusing{w.monitors.scope}
	go func() { // the graph takes part in the sync
		for range w.slots {
		}
	}()
	secretsToo := []*metav1.APIResourceList{served("v1", "ConfigMap", "Secret")}
	for _, lists := range [][]*metav1.APIResourceList{
		secretsToo, {served("v1", "ConfigMap"), served("x/v1", "Gadget")}, secretsToo,
	} {
		w.served.set(nil, lists...)
		w.refresh(w.env.Context())
	}
	if !w.monitors.has(secrets.resource) {
		t.Error("secrets are not watched")
	}
}

// TestAGroupIsDownWhenAStandbyTakesOver: it has the caches of its kinds, and must not take its objects for absent. Pins
// GC-106.
func TestAGroupIsDownWhenAStandbyTakesOver(t *testing.T) {
	w := newWorldServing(t, []*metav1.APIResourceList{
		served("v1", "ConfigMap"), served("x/v1", "Gadget"), served("y/v1", "Widget"),
	})
	w.refuseLists("widgets")
	w.Informers.StartWithContext(w.env.Context())
	for resource, informer := range w.monitors.foreseen {
		if resource.Resource != "widgets" {
			controllertest.Eventually(t, "the cache is filled", informer.HasSynced)
		}
	}
	go func() { // the graph takes part in the sync
		for range w.slots {
		}
	}()
	down := errors.New("down")
	w.served.set(&discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{
		{Group: "x", Version: "v1"}: down, {Group: "y", Version: "v1"}: down,
	}}, served("v1", "ConfigMap"))
	w.refresh(w.env.Context())
	for kind, want := range map[string]bool{"configmaps": true, "gadgets": true, "widgets": false} {
		watched := false
		for resource := range w.monitors.watched() {
			watched = watched || resource.Resource == kind
		}
		if watched != want {
			t.Errorf("%s are watched: %v, want %v", kind, watched, want)
		}
	}
}

// Pins GC-10.
func TestWhatIsCollectable(t *testing.T) {
	list := served("v1", "ConfigMap", "Event", "Binding")
	list.APIResources[2].Verbs = metav1.Verbs{"create"}
	found := collectable(t.Context(), []*metav1.APIResourceList{list}, decode("events"))
	if len(found) != 1 || found[configMaps.resource] == nil || *found[configMaps.resource] != *configMaps {
		t.Errorf("found %v", found)
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

// Pins GC-62.
func TestDebuggingHandler(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]int{"/graph": http.StatusOK, "/graph?uid=x": http.StatusOK, "/": http.StatusNotFound, "/graph/x": http.StatusNotFound} {
		recorder := httptest.NewRecorder()
		w.DebuggingHandler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		if recorder.Code != want {
			t.Errorf("%s: %d, want %d", path, recorder.Code, want)
		}
		if want != http.StatusOK {
			continue
		}
		if h := recorder.Header(); h.Get("Content-Type") != "text/vnd.graphviz" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers are %v", path, h)
		}
	}
}

// Pins GC-16 and GC-60.
func TestInvalidReferencesAreTold(t *testing.T) {
	w := newWorld(t)
	w.graph.apply(added(configMaps, object("a", "parent")))
	w.apply(t.Context(), added(secrets, object("b", "child", owner("ConfigMap", "parent"))))
	want := []string{`Warning OwnerRefInvalidNamespace ownerRef [v1/ConfigMap, namespace: b, name: parent, uid: parent] does not exist in namespace "b"`}
	if got := w.env.RecordedEvents(); !slices.Equal(got, want) {
		t.Errorf("events are %q, want %q", got, want)
	}
	event := ownerInOtherNamespace(invalidReference{dependent: id("Secret", "b", "child"), owner: id("ConfigMap", "b", "parent")})
	if o, ok := event.About.(*corev1.ObjectReference); !ok || o.Namespace != "b" || o.Kind != "Secret" || o.Name != "child" || o.UID != "child" {
		t.Errorf("the event is about %v", event.About)
	}
}

// BenchmarkApply adds and loses one object with an owner, in a graph of 10,000 objects.
func BenchmarkApply(b *testing.B) {
	g := newGraph(clock.RealClock{})
	for i := range 10_000 {
		g.apply(added(configMaps, object("a", fmt.Sprint("parent-", i%100))))
		g.apply(added(secrets, object("a", fmt.Sprint("child-", i), owner("ConfigMap", fmt.Sprint("parent-", i%100)))))
	}
	child := object("a", "extra", owner("ConfigMap", "parent-1"))
	b.ReportAllocs()
	for b.Loop() {
		g.apply(added(secrets, child))
		g.apply(lost(secrets, child))
	}
}
