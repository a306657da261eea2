package namespace

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
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
	f.catalogue.since(epoch.Add(-time.Minute)) // for another namespace
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
