package index

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pins PVCP-6.
func TestClaimPods(t *testing.T) {
	refersTo := func(claim string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
	}
	ephemeral := corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
	pod := func(namespace, name string, volumes ...corev1.Volume) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: objectMeta(namespace, name, ""), Spec: corev1.PodSpec{Volumes: volumes}}
	}
	failed := pod("a", "failed", corev1.Volume{Name: "v", VolumeSource: refersTo("data")})
	failed.Status.Phase = corev1.PodFailed
	onNode := pod("a", "running", corev1.Volume{Name: "v", VolumeSource: refersTo("data")}, corev1.Volume{Name: "w", VolumeSource: refersTo("logs")})
	onNode.Spec.NodeName = "n1"
	pods := NewClaimPods(podInformer(t,
		failed, onNode,
		pod("b", "other", corev1.Volume{Name: "v", VolumeSource: refersTo("data")}),
		pod("a", "web", corev1.Volume{Name: "scratch", VolumeSource: ephemeral}),
		pod("a", "same", corev1.Volume{Name: "v", VolumeSource: refersTo("web-scratch")}),
		pod("a", "none", corev1.Volume{Name: "v", VolumeSource: refersTo("")}, corev1.Volume{Name: "w"}),
	))
	for claim, want := range map[types.NamespacedName][]string{
		{Namespace: "a", Name: "data"}:        {"a/failed", "a/running"},
		{Namespace: "a", Name: "logs"}:        {"a/running"},
		{Namespace: "b", Name: "data"}:        {"b/other"},
		{Namespace: "a", Name: "web-scratch"}: {"a/same", "a/web"},
		{Namespace: "a", Name: "none-w"}:      nil, // no volume but a claim is named after its pod
		{Namespace: "a"}:                      nil,
		{Namespace: "b", Name: "logs"}:        nil,
	} {
		if got, err := pods.Of(claim); err != nil || !slices.Equal(keysOf(got), want) {
			t.Errorf("of %s: %v, %v, want %v", claim, keysOf(got), err, want)
		}
	}
}
