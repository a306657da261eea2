package informers

import (
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
)

// Pins MGR-59 and MGR-262.
func TestMetricNames(t *testing.T) {
	m := newMetricNames("names-test")
	pod, node := reflect.TypeFor[*corev1.Pod](), reflect.TypeFor[*corev1.Node]()
	filter := controller.Filter{Namespace: "ns", FieldSelector: "f", LabelSelector: "l"}
	acquire := func(objectType reflect.Type, f controller.Filter, want string) func() {
		t.Helper()
		name, release := m.acquire(objectType, f)
		if name.Name() != want {
			t.Errorf("got name %q, want %q", name.Name(), want)
		}
		// What generated code does; it must be the first to do so for its resource.
		id := name.WithResource(corev1.SchemeGroupVersion.WithResource(objectType.Elem().Name()))
		if id.Reserved() != (want != "") {
			t.Errorf("informer of %v under %q publishes metrics: %t", objectType, want, id.Reserved())
		}
		return release
	}
	releasePod := acquire(pod, controller.Filter{}, "names-test")
	releaseNode := acquire(node, controller.Filter{}, "names-test")
	releaseFiltered := acquire(pod, filter, "names-test/*[f]{l}")
	for range 3 { // a pod informer that is stopped and made again, while that of nodes runs
		releasePod()
		releasePod = acquire(pod, controller.Filter{}, "names-test-2")
	}
	releaseNode()
	releaseNode = acquire(node, controller.Filter{}, "names-test")
	releasePod()
	releaseNode()
	releaseFiltered()
	// What others have taken is skipped. That it can be taken shows that it was released.
	for _, name := range []string{"names-test", "names-test-2", "names-test/*[f]{l}", "names-test/*", "names-test/*-2", "names-test/*-3"} {
		reserved, err := cache.NewInformerName(name)
		if err != nil {
			t.Fatalf("name was not released: %v", err)
		}
		defer reserved.Release()
	}
	acquire(pod, controller.Filter{}, "names-test-3")()
	acquire(pod, controller.Filter{Namespace: "busy"}, "")()
	m.close()
	acquire(pod, controller.Filter{Namespace: "other"}, "")()
}

// legacy-serviceaccount-token-cleaner reads the pods of one namespace after another. Pins MGR-262.
func TestNamespacesShareTheirMetrics(t *testing.T) {
	m := newMetricNames("namespaces-test")
	names := map[string]bool{}
	for i := range 1000 {
		name, release := m.acquire(reflect.TypeFor[*corev1.Pod](), controller.Filter{Namespace: fmt.Sprintf("ns-%d", i)})
		names[name.Name()] = true
		release()
	}
	if len(names) != 1 || len(m.slots) != 1 {
		t.Errorf("metrics have had %d names, of which %d are kept", len(names), len(m.slots))
	}
}

// Pins MGR-64.
func TestInformersReleaseTheirName(t *testing.T) {
	h := newHarness(t, pods(1)...)
	for range 2 { // a second one in the process must not fail
		shared := New(Options{Client: h.client, Clock: h.clock, Name: "release-test"})
		shared.Start(t.Context())
		s := shared.NewScope(ScopeOptions{Name: "named"})
		s.Core().V1().Pods().Informer()
		if s.InformerName() != nil {
			t.Error("a name is offered while no informer is made")
		}
		if _, err := cache.NewInformerName("release-test"); err == nil {
			t.Error("the name was not used")
		}
		startAndSync(t, s)
		s.Close()
		shared.Shutdown()
		name, err := cache.NewInformerName("release-test")
		if err != nil {
			t.Fatal(err)
		}
		name.Release()
	}
}
