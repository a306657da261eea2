package simulation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestAPatchOfTheStatusChangesNothingElse(t *testing.T) {
	const patch = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","uid":"u1","labels":{"app":"other"}},` +
		`"spec":{"nodeName":"n"},"status":{"reason":"R"}}`
	for _, kind := range []types.PatchType{types.StrategicMergePatchType, types.ApplyPatchType} {
		w := New(t, 1)
		w.Create(newPod("p"))
		_, err := w.Client.CoreV1().Pods("ns").Patch(t.Context(), "p", kind, []byte(patch), metav1.PatchOptions{}, "status")
		must(err)
		pod, _ := Get[*corev1.Pod](w, "ns", "p")
		isStatus := pod.Status.Reason == "R" && pod.Status.Phase == corev1.PodPending
		if !isStatus || pod.Spec.NodeName != "" || pod.Labels["app"] != "p" {
			t.Errorf("%s: stored %+v", kind, pod)
		}
	}
}

func TestAnAppliedListReplacesTheFormer(t *testing.T) {
	w := New(t, 1)
	w.Create(newPod("p", func(p *corev1.Pod) {
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "a"}, {Name: "b"}}
	}))
	pods := w.Client.CoreV1().Pods("ns")
	apply := func(uid string) error {
		patch := `{"metadata":{"uid":"` + uid + `"},"status":{"resourceClaimStatuses":[{"name":"b"}]}}`
		_, err := pods.Patch(t.Context(), "p", types.ApplyPatchType, []byte(patch), metav1.PatchOptions{}, "status")
		return err
	}
	if err := apply("u9"); !apierrors.IsInvalid(err) {
		t.Errorf("another UID: %v", err)
	}
	must(apply("u1"))
	pod, _ := Get[*corev1.Pod](w, "ns", "p")
	if all := pod.Status.ResourceClaimStatuses; len(all) != 1 || all[0].Name != "b" {
		t.Errorf("stored %v", all)
	}
}
