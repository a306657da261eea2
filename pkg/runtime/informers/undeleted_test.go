package informers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
)

func TestUndeletedCountsWhatIsNotBeingDeleted(t *testing.T) {
	deleting := pod("deleting")
	deleting.UID = "deleting"
	deleting.DeletionTimestamp, deleting.Finalizers = &metav1.Time{}, []string{"x/y"}
	elsewhere := pod("elsewhere")
	elsewhere.Namespace = "elsewhere"
	h := newHarness(t, append(pods(2), deleting, elsewhere)...)
	resource, namespace := corev1.Resource("pods"), deleting.Namespace
	check := func(of schema.GroupResource, in, name string, want int, cached, filled bool) {
		t.Helper()
		if n, c, f := h.Undeleted(of, in, name); n != want || c != cached || f != filled {
			t.Errorf("%s %s/%s: %d, cached %t, filled %t", of, in, name, n, c, f)
		}
	}
	s := h.open(ScopeOptions{Name: "counts"})
	s.Filtered(controller.Filter{Namespace: namespace}).Core().V1().Pods().Informer()
	startAndSync(t, s)
	check(resource, "", "", 0, false, false) // a part of the objects is no share of them
	s.Core().V1().Pods().Informer()
	startAndSync(t, s)
	requests := h.requests("list", "pods")
	check(resource, "", "", 3, true, true)
	check(resource, namespace, "", 2, true, true)
	check(resource, "empty", "", 0, true, true)
	check(resource, namespace, "deleting", 0, true, true)
	check(resource, "elsewhere", "elsewhere", 1, true, true)
	check(resource, namespace, "new", 1, true, true)
	check(corev1.Resource("nodes"), "", "n", 0, false, false)
	for name, want := range map[string]types.UID{"deleting": deleting.UID, "new": ""} {
		if got := h.UIDOf(resource, namespace, name); got != want {
			t.Errorf("%s has the UID %q, want %q", name, got, want)
		}
	}
	if got := h.UIDOf(corev1.Resource("nodes"), "", "n"); got != "" {
		t.Errorf("a node that is not cached has the UID %q", got)
	}
	if n := h.requests("list", "pods"); n != requests {
		t.Errorf("%d lists were sent", n-requests)
	}
}
