package simulation

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestGarbageIsCollected(t *testing.T) {
	w := New(t, 1)
	w.Create(newPod("owner"))
	owner, _ := Get[*corev1.Pod](w, "ns", "owner")
	by := func(suffix types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "owner", UID: owner.UID + suffix}
	}
	refs := func(all ...metav1.OwnerReference) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.OwnerReferences = all }
	}
	w.Create(newPod("free"))
	w.Create(newPod("owned", refs(by(""))))
	w.Create(newPod("of-predecessor", refs(by("-before"))))
	w.Create(newPod("of-both", refs(by("-before"), by(""))))
	if !w.CollectGarbage() || w.CollectGarbage() {
		t.Error("garbage is not collected at once")
	}
	var left []string
	for _, pod := range All[*corev1.Pod](w) {
		left = append(left, fmt.Sprint(pod.Name, len(pod.OwnerReferences)))
	}
	if want := []string{"free0", "of-both1", "owned1", "owner0"}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}
