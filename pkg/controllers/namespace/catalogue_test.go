package namespace

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"

	"kcmd.dev/pkg/controllers/kit/customresources"
	"kcmd.dev/test/must"
)

// Pins NS-27a, NS-27c and NS-51.
func TestFailedDiscoveryKeepsTheNamespace(t *testing.T) {
	s := serving(pods, secrets)
	s.err = &discovery.ErrGroupDiscoveryFailed{}
	f := start(t, s, terminating())
	f.store.put(secrets, "s")
	finalized := f.finalized()
	if err := f.reconcile(f.Context(), "ns"); err == nil {
		t.Error("reconcile hides the failure")
	}
	if len(f.store.items[secrets]) != 0 {
		t.Error("what was discovered must be swept")
	}
	if len(*finalized) != 0 {
		t.Error("finalized although types may be missing")
	}
	if got := conditionsOf(f.live(t)); got[0] != "NamespaceDeletionDiscoveryFailure=True" {
		t.Errorf("conditions = %v", got)
	}
	s.mu.Lock()
	s.err = nil
	s.mu.Unlock()
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if len(*finalized) != 1 || s.calls != 2 {
		t.Errorf("finalized %v after %d discoveries", *finalized, s.calls)
	}
}

// Pins NS-61.
func TestDiscoveryIsShared(t *testing.T) {
	f := start(t, serving(pods), terminating(), terminating(func(ns *corev1.Namespace) { ns.Name, ns.UID = "b", "uid-b" }))
	f.finalized()
	f.Clock.Step(settleTime)
	for _, name := range []string{"ns", "b", "ns"} {
		if err := f.reconcile(f.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if f.server.calls != 1 {
		t.Errorf("%d discoveries for namespaces deleted before the first, want 1", f.server.calls)
	}
	later := terminating(func(ns *corev1.Namespace) { ns.Name, ns.UID = "c", "uid-c" })
	f.memory.observe(later, f.Clock.Now())
	f.Clock.Step(settleTime)
	if _, _, err := f.empty(f.Context(), later); err != nil {
		t.Fatal(err)
	}
	if f.server.calls != 2 {
		t.Errorf("%d discoveries, want one more for a namespace deleted after the first", f.server.calls)
	}
}

// Until five seconds after the deletion, something can be created of a type that was not served before. Pins NS-61.
func TestADiscoveryThatIsOlderThanTheLastContentIsNotUsed(t *testing.T) {
	s := serving(pods)
	f := startSeeing(t, epoch, s, terminating())
	f.memory.observe(terminating(), epoch)
	finalized := f.finalized()
	f.Clock.Step(settleTime - time.Second)
	f.catalogue.since(t.Context(), epoch.Add(-time.Minute)) // for another namespace
	s.add(widgets, allVerbs...)
	f.store.put(widgets, "w")
	f.Clock.Step(time.Second)
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if len(f.store.items[widgets]) != 0 || len(*finalized) != 1 || s.calls != 2 {
		t.Errorf("%d widgets are left, finalized %v after %d discoveries", len(f.store.items[widgets]), *finalized, s.calls)
	}
}

// define stores the CustomResourceDefinition of widgets.
func (f *fixture) define(t *testing.T, scope string, served bool, established metav1.ConditionStatus) {
	t.Helper()
	must.Get(f.Env.Env.Dynamic.Resource(customresources.Definitions).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.example.com"},
		"spec":     map[string]any{"scope": scope, "versions": []any{map[string]any{"name": "v1", "served": served}}},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": string(established)}}},
	}}, metav1.CreateOptions{}))(t)
}

// An API server that has just started does not know custom resources yet, and its discovery does not say so. Pins NS-79.
func TestATypeThatDiscoveryShowsNoMoreIsLookedUp(t *testing.T) {
	for name, tc := range map[string]struct {
		define func(t *testing.T, f *fixture)
		waits  bool
	}{
		"NS-79: it is served":                  {func(t *testing.T, f *fixture) { f.define(t, "Namespaced", true, metav1.ConditionTrue) }, true},
		"NS-79: it has no definition any more": {func(*testing.T, *fixture) {}, false},
		"NS-79: no version of it is served":    {func(t *testing.T, f *fixture) { f.define(t, "Namespaced", false, metav1.ConditionTrue) }, false},
		"NS-79: it is not established":         {func(t *testing.T, f *fixture) { f.define(t, "Namespaced", true, metav1.ConditionFalse) }, false},
		"NS-79: it has no namespaces any more": {func(t *testing.T, f *fixture) { f.define(t, "Cluster", true, metav1.ConditionTrue) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving(pods, widgets)
			f := start(t, s, terminating())
			f.catalogue.since(t.Context(), epoch.Add(-time.Minute)) // for another namespace
			tc.define(t, f)
			f.store.put(widgets, "w")
			finalized := f.finalized()
			s.mu.Lock()
			all := s.lists
			s.lists = serving(pods).lists
			s.mu.Unlock()
			f.Clock.Step(maxAge)
			err := f.reconcile(f.Context(), "ns")
			if tc.waits != (err != nil) || tc.waits != (len(*finalized) == 0) {
				t.Fatalf("error %v, finalized %v", err, *finalized)
			}
			if !tc.waits {
				return
			}
			if got := conditionsOf(f.live(t)); got[0] != "NamespaceDeletionDiscoveryFailure=True" {
				t.Errorf("conditions = %v", got)
			}
			f.Clock.Step(doubtTime - 1)
			if err := f.reconcile(f.Context(), "ns"); err == nil {
				t.Error("no error")
			}
			s.mu.Lock()
			s.lists = all
			s.mu.Unlock()
			if err := f.reconcile(f.Context(), "ns"); err != nil || len(f.store.items[widgets]) != 0 || len(*finalized) != 1 {
				t.Errorf("error %v, %d widgets are left, finalized %v", err, len(f.store.items[widgets]), *finalized)
			}
		})
	}
}

// A type may also be hidden for ever, by an aggregated API server that serves its group. Pins NS-79.
func TestATypeThatDiscoveryNeverShowsAgainKeepsNoNamespace(t *testing.T) {
	s := serving(pods, widgets)
	f := start(t, s, terminating())
	f.catalogue.since(t.Context(), epoch.Add(-time.Minute))
	f.define(t, "Namespaced", true, metav1.ConditionTrue)
	finalized := f.finalized()
	s.lists = serving(pods).lists
	f.Clock.Step(time.Hour)
	if err := f.reconcile(f.Context(), "ns"); err == nil || len(*finalized) != 0 {
		t.Errorf("error %v, finalized %v", err, *finalized)
	}
	f.Clock.Step(doubtTime)
	if err := f.reconcile(f.Context(), "ns"); err != nil || len(*finalized) != 1 {
		t.Errorf("error %v, finalized %v", err, *finalized)
	}
}

// What was shown is handed over. Pins NS-79.
func TestTheTypesThatWereShownAreHandedOver(t *testing.T) {
	before := start(t, serving(pods, widgets), terminating())
	before.catalogue.since(t.Context(), epoch.Add(-time.Minute))
	f := start(t, serving(pods), terminating())
	f.define(t, "Namespaced", true, metav1.ConditionTrue)
	f.Env.Succession.Leave(before.HandOver())
	must.Succeed(t, f.begin(t.Context()))
	finalized := f.finalized()
	if err := f.reconcile(f.Context(), "ns"); err == nil || len(*finalized) != 0 {
		t.Errorf("error %v, finalized %v", err, *finalized)
	}
}
