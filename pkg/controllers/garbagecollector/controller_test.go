package garbagecollector

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/informers/informerstest"
	"kcmd.dev/test/controllertest"
)

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
