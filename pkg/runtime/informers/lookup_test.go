package informers

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

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

// The cache of a kind that may not be watched any more does not show that an object is absent, and the reason is known.
// Pins MGR-258.
func TestACacheThatLagsIsNotCertain(t *testing.T) {
	h := newHarness(t, pods(1)...)
	resource := corev1.SchemeGroupVersion.WithResource("pods").GroupResource()
	forbidden, allowed, stream := apierrors.NewForbidden(resource, "", errors.New("the role is gone")), atomic.Bool{}, watch.NewFake()
	allowed.Store(true)
	h.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !allowed.Load(), nil, forbidden
	})
	h.client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		if allowed.Load() {
			return true, stream, nil
		}
		return true, nil, forbidden
	})
	s := h.open(ScopeOptions{Name: "reads"})
	s.Core().V1().Pods().Informer()
	startAndSync(t, s)
	if _, certain := h.Lookup(resource, "default", "new"); !certain || h.Problem(resource) != "" {
		t.Errorf("a cache that follows is certain: %t, its problem is %q", certain, h.Problem(resource))
	}
	allowed.Store(false)
	stream.Stop()
	eventually(t, "the failure to be known", func() bool { return strings.Contains(h.Status()[0].LastError, "the role is gone") })
	for _, name := range []string{"p0", "new"} {
		if o, certain := h.Lookup(resource, "default", name); (o != nil) != (name == "p0") || certain {
			t.Errorf("%s is there: %t, certain: %t", name, o != nil, certain)
		}
	}
	if got := h.Problem(resource); !strings.Contains(got, "the role is gone") {
		t.Errorf("the problem is %q", got)
	}
	if got := h.Problem(schema.GroupResource{Resource: "nodes"}); got != "" {
		t.Errorf("the problem of a kind that is not cached is %q", got)
	}
}
