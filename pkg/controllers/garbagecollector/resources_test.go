package garbagecollector

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/component-base/metrics/testutil"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/controllertest"
)

// Pins GC-10.
func TestWhatIsCollectable(t *testing.T) {
	list := served("v1", "ConfigMap", "Event", "Binding")
	list.APIResources[2].Verbs = metav1.Verbs{"create"}
	found := collectable(t.Context(), []*metav1.APIResourceList{list}, decode("events"))
	if len(found) != 1 || found[configMaps.resource] == nil || *found[configMaps.resource] != *configMaps {
		t.Errorf("found %v", found)
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
