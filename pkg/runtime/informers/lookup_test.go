package informers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/controller"
)

// What is in a cache is found, of all caches of a kind, without a request.
func TestLookup(t *testing.T) {
	h := newHarness(t, pods(2)...)
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	nodes := schema.GroupResource{Resource: "nodes"}
	name := pod("").Namespace
	first := func() string { return keyOf(pods(1)[0])[len(name)+1:] }()
	if o, certain := h.Lookup(resource.GroupResource(), name, first); o != nil || certain {
		t.Errorf("without a cache, the pod is %v, %t", o, certain)
	}
	s := h.open(ScopeOptions{Name: "reads"})
	s.Filtered(controller.Filter{Namespace: name}).Core().V1().Pods().Informer()
	startAndSync(t, s)
	if o, certain := h.Lookup(resource.GroupResource(), name, first); o == nil || certain {
		t.Errorf("with a cache of a part, the pod is %v, %t", o, certain)
	}
	s.Core().V1().Pods().Informer()
	startAndSync(t, s)
	requests := h.requests("list", "pods")
	o, certain := h.Lookup(resource.GroupResource(), name, first)
	if _, whole := o.(*corev1.Pod); !whole || !certain || o.GetName() != first {
		t.Errorf("the pod is %v, %t", o, certain)
	}
	if o, certain := h.Lookup(resource.GroupResource(), name, "none"); o != nil || !certain {
		t.Errorf("a pod that does not exist is %v, %t", o, certain)
	}
	if o, certain := h.Lookup(nodes, "", first); o != nil || certain {
		t.Errorf("an object of a kind that is not cached is %v, %t", o, certain)
	}
	var seen []string
	h.Visit(name, func(of schema.GroupResource, o metav1.Object) { seen = append(seen, of.Resource+" "+o.GetName()) })
	h.Visit("elsewhere", func(_ schema.GroupResource, o metav1.Object) { t.Errorf("visited %s", o.GetName()) })
	if len(seen) != 4 { // two pods in two caches
		t.Errorf("visited %q", seen)
	}
	if n := h.requests("list", "pods"); n != requests {
		t.Errorf("%d lists were sent", n-requests)
	}
}
