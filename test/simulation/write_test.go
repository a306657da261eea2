package simulation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestAnUpdateChangesAllButTheStatus(t *testing.T) {
	w := New(t, 1)
	w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}})
	configMap, _ := Get[*corev1.ConfigMap](w, "ns", "c")
	configMap = configMap.DeepCopy()
	configMap.BinaryData, configMap.Immutable = map[string][]byte{"a": nil}, ptr.To(true)
	_, err := w.Client.CoreV1().ConfigMaps("ns").Update(t.Context(), configMap, metav1.UpdateOptions{})
	must(err)
	w.Create(newPod("p"))
	pod, _ := Get[*corev1.Pod](w, "ns", "p")
	pod = pod.DeepCopy()
	pod.Spec.NodeName, pod.Status.Phase = "n", corev1.PodFailed
	_, err = w.Client.CoreV1().Pods("ns").Update(t.Context(), pod, metav1.UpdateOptions{})
	must(err)
	configMap, _ = Get[*corev1.ConfigMap](w, "ns", "c")
	pod, _ = Get[*corev1.Pod](w, "ns", "p")
	isKept := len(configMap.BinaryData) == 1 && configMap.Immutable != nil && pod.Spec.NodeName == "n"
	if !isKept || pod.Status.Phase != corev1.PodPending {
		t.Errorf("stored %+v and %+v", configMap, pod)
	}
}

func TestCreatedObjectsAreStoredAsCopies(t *testing.T) {
	w := New(t, 1)
	pod := newPod("p")
	w.Create(pod)
	pod.Labels["app"] = "other"
	if stored, _ := Get[*corev1.Pod](w, "ns", "p"); stored.Labels["app"] != "p" || pod.UID != "" {
		t.Errorf("stored %v, sent %v", stored.ObjectMeta, pod.ObjectMeta)
	}
}
