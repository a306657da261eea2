package simulation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAnOlderStateCannotBeChanged(t *testing.T) {
	w := New(t, 1)
	w.Create(newPod("changed"))
	w.Create(newPod("deleted"))
	changed, _ := Get[*corev1.Pod](w, "ns", "changed")
	Change(w, changed, func(p *corev1.Pod) { p.Labels = nil })
	deleted, _ := Get[*corev1.Pod](w, "ns", "deleted")
	w.Delete(deleted, nil)
	for _, pod := range []*corev1.Pod{changed, deleted} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("pod %s: an older state replaced what is stored", pod.Name)
				}
			}()
			Change(w, pod, func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} })
		}()
	}
}
