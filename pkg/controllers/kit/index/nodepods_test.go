package index

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Pins WL-9.
func TestNodePods(t *testing.T) {
	on := func(namespace, name, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: objectMeta(namespace, name, ""), Spec: corev1.PodSpec{NodeName: node}}
	}
	pods := NewNodePods(podInformer(t, on("a", "x", "n1"), on("b", "x", "n1"), on("a", "y", "n2"), on("a", "pending", "")))
	for node, want := range map[string][]string{"n1": {"a/x", "b/x"}, "n2": {"a/y"}, "n3": nil, "": nil} {
		if got, err := pods.On(node); err != nil || !slices.Equal(keysOf(got), want) {
			t.Errorf("on %q: %v, %v, want %v", node, keysOf(got), err, want)
		}
	}
}
