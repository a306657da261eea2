package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controllertest"
)

// TestRequests is about the kinds of requests of an attempt, with nothing in any cache. No patch names a field manager.
// Pins GC-51.
func TestRequests(t *testing.T) {
	const merge, strategic = "application/merge-patch+json", "application/strategic-merge-patch+json"
	claim, other := owner("ConfigMap", "parent"), owner("ConfigMap", "other")
	child := func(edits ...func(*metav1.ObjectMeta)) *metav1.PartialObjectMetadata {
		return typed(secrets, object("a", "child", edits...))
	}
	parent := func(edits ...func(*metav1.ObjectMeta)) *metav1.PartialObjectMetadata {
		return typed(configMaps, object("a", "parent", edits...))
	}
	unsupported := apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", schema.GroupResource{}, "", "", 0, false)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "child", errors.New("changed"))
	for name, c := range map[string]struct {
		server  []runtime.Object
		graph   []*change
		attempt string
		refused string // a verb that fails the first time
		err     error
		want    []string
	}{
		"GC-12, GC-13: the item, each owner, and the deletion": {
			server: []runtime.Object{child(claim, other)}, graph: []*change{added(secrets, child(claim, other))}, attempt: "child",
			want: []string{"get child", "get parent", "get other", "delete child"},
		},
		"GC-12: the item once more after a conflict": {
			server: []runtime.Object{child(claim)}, graph: []*change{added(secrets, child(claim))}, attempt: "child", refused: "delete", err: conflict,
			want: []string{"get child", "get parent", "delete child", "get child"},
		},
		"GC-12, GC-15: an owner before its finalizer goes": {
			server: []runtime.Object{parent(deleted(foreground))}, graph: []*change{added(configMaps, parent(deleted(foreground)))}, attempt: "parent",
			want: []string{"get parent", "patch parent " + merge},
		},
		"GC-14: references go from a kind with strategic merge patches": {
			server: []runtime.Object{child(claim, other), parent()}, graph: []*change{added(secrets, child(claim, other))}, attempt: "child",
			want: []string{"get child", "get parent", "get other", "patch child " + strategic},
		},
		"GC-14: and from one without them": {
			server: []runtime.Object{child(claim, other), parent()}, graph: []*change{added(secrets, child(claim, other))}, attempt: "child", refused: "patch", err: unsupported,
			want: []string{"get child", "get parent", "get other", "patch child " + strategic, "get child", "patch child " + merge},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.server...)
			if c.refused != "" {
				first := true
				w.server.PrependReactor(c.refused, "*", func(clienttesting.Action) (bool, runtime.Object, error) {
					failing := first
					first = false
					return failing, nil, c.err
				})
			}
			for _, change := range c.graph {
				w.graph.apply(change)
			}
			managers := &managers{Interface: w.server}
			w.Metadata = managers
			w.server.ClearActions()
			_ = w.attemptToDelete(t.Context(), w.node(c.attempt)) // the outcome is that of TestAttempt
			if got := w.requests(); !slices.Equal(got, c.want) {
				t.Errorf("the requests are %q, want %q", got, c.want)
			}
			if strings.Join(managers.named, "") != "" {
				t.Errorf("patches are those of %q", managers.named)
			}
		})
	}
}

// Pins GC-87.
func TestAnOwnerThatIsGoneIsReadOnceForAllDependents(t *testing.T) {
	children := siblings(2)
	w := newWorld(t, children...)
	for _, child := range children {
		w.graph.apply(added(configMaps, child.(*metav1.PartialObjectMetadata)))
	}
	w.server.ClearActions()
	for _, child := range []string{"child-0", "child-1"} {
		_ = w.attemptToDelete(t.Context(), w.node(child))
	}
	want := []string{"get child-0", "get parent", "delete child-0", "get child-1", "delete child-1"}
	if got := w.requests(); !slices.Equal(got, want) {
		t.Errorf("the requests are %q, want %q", got, want)
	}
}

// managers is a client that records the field managers that patches name: a fake one does not.
type managers struct {
	metadata.Interface
	named []string
}

func (m *managers) Resource(r schema.GroupVersionResource) metadata.Getter {
	return managersOf{m.Interface.Resource(r), m}
}

type managersOf struct {
	metadata.Getter
	of *managers
}

func (m managersOf) Namespace(name string) metadata.ResourceInterface {
	return managersIn{m.Getter.Namespace(name), m.of}
}

type managersIn struct {
	metadata.ResourceInterface
	of *managers
}

func (m managersIn) Patch(ctx context.Context, name string, as types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (*metav1.PartialObjectMetadata, error) {
	m.of.named = append(m.of.named, o.FieldManager)
	return m.ResourceInterface.Patch(ctx, name, as, data, o, subresources...)
}

// requests renders the requests about single objects.
func (w *world) requests() []string {
	var all []string
	for _, action := range w.server.Actions() {
		switch a := action.(type) {
		case clienttesting.GetActionImpl:
			all = append(all, "get "+a.Name)
		case clienttesting.DeleteActionImpl:
			all = append(all, "delete "+a.Name)
		case clienttesting.PatchActionImpl:
			all = append(all, fmt.Sprintf("patch %s %s", a.Name, a.PatchType))
		}
	}
	return all
}

func TestLocate(t *testing.T) {
	for name, c := range map[string]struct {
		of   identity
		want location
		err  string
	}{
		"GC-44b: a namespaced kind":            {of: id("Secret", "a", "x"), want: location{resource: secrets.resource, namespace: "a", name: "x", apiVersion: "v1", kind: "Secret"}},
		"GC-44b: a cluster-scoped kind":        {of: id("Node", "a", "x"), want: location{resource: nodes.resource, name: "x", apiVersion: "v1", kind: "Node"}},
		"GC-44b: no namespace of a namespaced": {of: id("Secret", "", "x"), err: errScope.Error()},
		"GC-44b: an unknown kind":              {of: id("Gadget", "a", "x"), err: "unable to get REST mapping for v1/Gadget."},
		"GC-44b: a version that is nonsense":   {of: identity{apiVersion: "a/b/c", kind: "Secret", namespace: "a", name: "x"}, err: "unable to get REST mapping for a/b/c/Secret."},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newWorld(t).locate(c.of)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// TestAbsentOwnersAreNotReadAgain, unless they are others.
func TestAbsentOwnersAreNotReadAgain(t *testing.T) {
	ref := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "parent", UID: "parent"}
	for name, c := range map[string]struct {
		absent identity
		want   ownerState
		reads  int
	}{
		"GC-46: of the namespace":            {id("ConfigMap", "a", "parent"), dangling, 0},
		"GC-46: of no namespace":             {id("ConfigMap", "", "parent"), dangling, 0},
		"GC-46: of another namespace":        {id("ConfigMap", "b", "parent"), solid, 1},
		"GC-46: of another kind":             {id("Secret", "a", "parent"), solid, 1},
		"GC-75: one that is there once more": {identity{apiVersion: "v1", kind: "ConfigMap", namespace: "a", name: "parent", uid: "former"}, solid, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, typed(configMaps, object("a", "parent")))
			w.graph.absent.add(c.absent)
			w.server.ClearActions()
			got, err := w.ownerState(t.Context(), id("Secret", "a", "child"), ref)
			if err != nil || got != c.want || len(w.server.Actions()) != c.reads {
				t.Errorf("it is %s after %d reads, %v", got, len(w.server.Actions()), err)
			}
		})
	}
}

// TestReferencesGoByUID: a reference to the owner goes with another one that claims to have its UID. Pins GC-72.
func TestReferencesGoByUID(t *testing.T) {
	impostor := func(m *metav1.ObjectMeta) {
		m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "impostor", UID: "parent"})
	}
	child := typed(secrets, object("a", "child", owner("ConfigMap", "parent"), impostor))
	w := newWorld(t, child, typed(configMaps, object("a", "parent")))
	w.graph.apply(added(secrets, child))
	if err := w.attemptToDelete(t.Context(), w.node("child")); err != nil {
		t.Fatal(err)
	}
	if got := w.writes(); !slices.Equal(got, []string{`patch child {"metadata":{"ownerReferences":[{"$patch":"delete","uid":"parent"}],"uid":"child"}}`}) {
		t.Errorf("the writes are %q", got)
	}
}

// refuseLists makes a kind one that cannot be listed.
func (w *world) refuseLists(resource string) {
	broken := errors.New("conversion webhook failed")
	w.server.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, broken })
	w.server.PrependWatchReactor(resource, func(clienttesting.Action) (bool, watch.Interface, error) { return true, nil, broken })
}

// TestDependentsThatCannotBeListedBlockNothing: nobody knows of them. Pins GC-74.
func TestDependentsThatCannotBeListedBlockNothing(t *testing.T) {
	w := newWorld(t, typed(configMaps, object("a", "parent", deleted(foreground))), typed(secrets, object("a", "child", owner("ConfigMap", "parent", blocking))))
	w.refuseLists("secrets")
	w.env.Run(t, w.collector)
	w.env.EventuallyAsTimePasses(t, "the owner is released", time.Second, func() bool {
		return slices.Contains(w.writes(), `patch parent {"metadata":{"finalizers":null,"resourceVersion":"1"}}`)
	})
	if !w.exists(t, secrets, "a", "child") {
		t.Error("the dependent is gone")
	}
}

// TestTheWaitForASyncIsBounded, and holds up neither readers nor writers of the monitors. Pins GC-59 and GC-70.
func TestTheWaitForASyncIsBounded(t *testing.T) {
	w := newWorld(t)
	w.refuseLists("secrets")
	go func() { // the graph takes part in the sync
		for range w.slots {
		}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.refresh(w.env.Context())
	}()
	controllertest.Eventually(t, "the sync is waited for", w.env.Clock.HasWaiters)
	if !w.monitors.mu.TryLock() {
		t.Fatal("the monitors are locked")
	}
	w.monitors.mu.Unlock()
	w.env.Clock.Step(30*time.Second - 1)
	await.Stays(t, "the sync is waited for", 100*time.Millisecond, func(context.Context) error {
		select {
		case <-done:
			return errors.New("the wait is over")
		default:
			return nil
		}
	})
	w.env.Clock.Step(1)
	<-done
	if len(w.known) != 3 || w.failures(t) != 1 {
		t.Errorf("%d resources are known, %v failures", len(w.known), w.failures(t))
	}
	w.refresh(w.env.Context()) // of the same resources: nothing is waited for
	if w.failures(t) != 1 {
		t.Errorf("%v failures", w.failures(t))
	}
}

// failures is the metric of syncs that have failed.
func (w *world) failures(t *testing.T) float64 {
	t.Helper()
	families, err := w.env.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "garbagecollector_controller_resources_sync_error_total" {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// Pins GC-63.
func TestDiscoveryIsRepeated(t *testing.T) {
	w := newWorld(t)
	w.env.Run(t, w.collector)
	const step = time.Second
	controllertest.Eventually(t, "the first pass", func() bool { return w.served.looks() == 1 })
	for pass := range 3 {
		before := w.env.Clock.Now().Add(-step) // the last pass began since, and its timer was set after that
		w.env.EventuallyAsTimePasses(t, "the next pass", step, func() bool { return w.served.looks() == pass+2 })
		if passed := w.env.Clock.Since(before); passed < 30*time.Second {
			t.Errorf("the next pass begins after %s", passed)
		}
	}
}

// TestQueues are on loops that do not run.
func TestQueues(t *testing.T) {
	w := newWorld(t)
	var names []string
	for _, loop := range []controller.LoopStatus{w.changes.Inspect(), w.attempt.loop.Inspect(), w.orphan.loop.Inspect()} {
		names = append(names, fmt.Sprint(loop.Queue, " ", loop.Workers))
	}
	t.Run("GC-8, GC-18, GC-19, GC-20, GC-21: names and workers", func(t *testing.T) {
		want := []string{"garbage_collector_graph_changes 1", "garbage_collector_attempt_to_delete 2", "garbage_collector_attempt_to_orphan 2"}
		if !slices.Equal(names, want) {
			t.Errorf("the queues are %q, want %q", names, want)
		}
	})
	t.Run("GC-19: each change counts", func(t *testing.T) {
		for range 2 {
			w.deliver(added(secrets, object("a", "same")))
		}
		if depth := w.changes.Inspect().Depth; depth != 2 {
			t.Errorf("%d changes are queued", depth)
		}
	})
	for name, list := range map[string]*worklist{"GC-20: each node counts once": w.attempt, "GC-21: each owner counts once": w.orphan} {
		t.Run(name, func(t *testing.T) {
			one, another := &node{identity: id("Secret", "a", "x")}, &node{identity: id("Secret", "a", "x")}
			for _, n := range []*node{one, another, one} {
				list.add(reconcile.Fresh, n)
			}
			if depth := list.loop.Inspect().Depth; depth != 2 {
				t.Errorf("%d nodes are queued", depth)
			}
		})
	}
}

// TestChangesKeepTheirOrder, whether they were replayed or are fresh. Pins GC-19.
func TestChangesKeepTheirOrder(t *testing.T) {
	w := newWorld(t)
	const objects = 50
	for i := range objects {
		o := object("a", fmt.Sprint("x-", i))
		replayed := added(secrets, o)
		replayed.lane = reconcile.Backlog
		w.deliver(replayed)
		w.deliver(lost(secrets, o))
	}
	ctx, stop := context.WithCancel(w.env.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.changes.Run(ctx) }()
	controllertest.Eventually(t, "all changes are made", func() bool { return w.changes.Inspect().Reconciled == 2*objects })
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if held := held(w.graph); held != "" {
		t.Errorf("the graph holds %s", held)
	}
}

// TestNotifications are turned into changes of the kind that is watched, whatever kind objects say.
func TestNotifications(t *testing.T) {
	of := func(uid types.UID) *metav1.PartialObjectMetadata {
		return typed(configMaps, object("a", "x", func(m *metav1.ObjectMeta) { m.UID = uid }))
	}
	owned := typed(configMaps, object("a", "x", owner("Node", "n")))
	const is = "[v1/Secret, namespace: a, name: x, uid: x]"
	for name, c := range map[string]struct {
		notify func(handler)
		want   []string
	}{
		"GC-11: an object is added":            {func(h handler) { h.OnAdd(of("x"), false) }, []string{"observed " + is}},
		"GC-11: an object is updated":          {func(h handler) { h.OnUpdate(of("x"), owned) }, []string{"observed " + is}},
		"GC-11: an object is deleted":          {func(h handler) { h.OnDelete(of("x")) }, []string{"gone " + is}},
		"GC-109: a list lacks an object":       {func(h handler) { h.OnDelete(cache.DeletedFinalStateUnknown{Key: "a/x", Obj: of("x")}) }, []string{"missed " + is}},
		"GC-26: what is added is no object":    {func(h handler) { h.OnAdd("odd", false) }, nil},
		"GC-26: what is updated was no object": {func(h handler) { h.OnUpdate("odd", of("x")) }, nil},
		"GC-26: what is updated is no object":  {func(h handler) { h.OnUpdate(of("x"), "odd") }, nil},
		"GC-26: what is deleted is no object":  {func(h handler) { h.OnDelete("odd") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var delivered []string
			c.notify(handler{newMonitors(nil, nil, func(metav1.Object) bool { return true }, func(c *change) { delivered = append(delivered, c.String()) }), secrets})
			if !slices.Equal(delivered, c.want) {
				t.Errorf("delivered %q, want %q", delivered, c.want)
			}
		})
	}
}

// Pins GC-25.
func TestMatches(t *testing.T) {
	of := id("ConfigMap", "a", "x")
	for name, c := range map[string]struct {
		edit func(*metav1.OwnerReference)
		want bool
	}{
		"the same":            {func(*metav1.OwnerReference) {}, true},
		"one that blocks":     {blocking, true},
		"one of a controller": {func(r *metav1.OwnerReference) { r.Controller = new(bool) }, true},
		"another version":     {func(r *metav1.OwnerReference) { r.APIVersion = "v2" }, false},
		"another kind":        {func(r *metav1.OwnerReference) { r.Kind = "Secret" }, false},
		"another name":        {func(r *metav1.OwnerReference) { r.Name = "y" }, false},
		"another UID":         {func(r *metav1.OwnerReference) { r.UID = "y" }, false},
	} {
		o := object("a", "child", owner("ConfigMap", "x", c.edit))
		if got := of.matches(o.OwnerReferences[0]); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestKindsAreCachedOnce: their metadata, unless the whole objects are cached anyway. Pins GC-98.
func TestKindsAreCachedOnce(t *testing.T) {
	w := newWorld(t)
	w.Informers.Core().V1().Secrets().Informer()
	w.env.Run(t, w.collector)
	w.settle(t)
	lists := func(actions []clienttesting.Action) []string {
		var all []string
		for _, action := range actions {
			if action.GetVerb() == "list" {
				all = append(all, action.GetResource().Resource)
			}
		}
		slices.Sort(all)
		return all
	}
	if whole, metadata := lists(w.env.Fake.Actions()), lists(w.server.Actions()); !slices.Equal(whole, []string{"secrets"}) || !slices.Equal(metadata, []string{"configmaps", "nodes"}) {
		t.Errorf("whole objects are listed of %q, metadata of %q", whole, metadata)
	}
}

// Pins GC-1, GC-2, GC-7 and GC-8.
func TestDescriptor(t *testing.T) {
	d, cfg := Descriptor(), v1beta1.NewDefault()
	if d.Name != "garbage-collector-controller" || !slices.Equal(d.Aliases, []string{"garbagecollector"}) || d.ServiceAccount != "generic-garbage-collector" || d.Gate != "" || d.Limits.QPS != 2 {
		t.Errorf("%+v", d)
	}
	if enabled, _ := d.Enabled(cfg); !enabled || configOf(cfg).concurrentSyncs != 20 {
		t.Errorf("enabled: %t, %+v", enabled, configOf(cfg))
	}
	cfg.Controllers.GarbageCollector.Enabled = ptr.To(false)
	if enabled, _ := d.Enabled(cfg); enabled {
		t.Error("it cannot be switched off")
	}
}

// The finalizer is still there. Pins WL-119.
func TestAFinalizerThatIsNotRemovedInTime(t *testing.T) {
	before := typed(configMaps, object("a", "parent", deleted("x", orphan)))
	w := newWorld(t, before)
	w.graph.apply(added(configMaps, before))
	w.server.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, &url.Error{Op: "Get", URL: "https://server", Err: context.DeadlineExceeded}
	})
	if err := w.attemptToOrphan(t.Context(), w.node("parent")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
