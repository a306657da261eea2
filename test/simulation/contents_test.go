package simulation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestContentsAreThoseOfOneNamespace(t *testing.T) {
	w, pods := New(t, 1), corev1.SchemeGroupVersion.WithResource("pods")
	m := ServeMetadata(w)
	kinds := map[schema.GroupVersionResource]schema.GroupVersionKind{pods: corev1.SchemeGroupVersion.WithKind("Pod")}
	for _, namespace := range []string{"a", "b"} {
		w.Create(newPod("p", func(p *corev1.Pod) { p.Namespace = namespace }))
	}
	of := (&Contents{World: w, Kinds: kinds}).Resource(pods).Namespace("a")
	list, err := of.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Namespace != "a" {
		t.Errorf("listed %v, %v", list, err)
	}
	if err := of.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if all := All[*corev1.Pod](w); len(all) != 1 || all[0].Namespace != "b" {
		t.Errorf("left are %v", all)
	}
	m.Serve(pods, false)
	if _, err := of.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a kind that is not served: %v", err)
	}
}
