package simulation

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestASecondDeletionShortensTheGracePeriod(t *testing.T) {
	w := New(t, 1)
	w.Create(newPod("p", func(p *corev1.Pod) { p.Spec.NodeName, p.Finalizers = "n", []string{"example.com/f"} }))
	began := w.Clock.Now()
	for _, test := range []struct {
		grace *int64
		want  int64
	}{
		{nil, 30}, {nil, 30}, {ptr.To[int64](60), 30}, {ptr.To[int64](5), 5}, {nil, 5}, {ptr.To[int64](0), 0},
	} {
		pod, _ := Get[*corev1.Pod](w, "ns", "p")
		w.Delete(pod, test.grace)
		w.Clock.Step(time.Second)
		pod, _ = Get[*corev1.Pod](w, "ns", "p")
		due := began.Add(time.Duration(test.want) * time.Second)
		if *pod.DeletionGracePeriodSeconds != test.want || !pod.DeletionTimestamp.Time.Equal(due) {
			t.Errorf("period %d until %v, want %d until %v", *pod.DeletionGracePeriodSeconds, pod.DeletionTimestamp, test.want, due)
		}
	}
	pod, _ := Get[*corev1.Pod](w, "ns", "p")
	Change(w, pod, func(p *corev1.Pod) { p.Finalizers = nil })
	if _, ok := Get[*corev1.Pod](w, "ns", "p"); ok {
		t.Error("the pod stays")
	}
}

func TestANamespaceStaysUntilItIsFinalized(t *testing.T) {
	w := New(t, 1)
	w.Create(&corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}},
	})
	before, _ := Get[*corev1.Namespace](w, "", "a")
	w.Delete(before, nil)
	after, ok := Get[*corev1.Namespace](w, "", "a")
	if !ok {
		t.Fatal("it is gone")
	}
	finalize := func(ns *corev1.Namespace) error {
		ns = ns.DeepCopy()
		ns.Spec.Finalizers = nil
		_, err := w.Client.CoreV1().Namespaces().Finalize(t.Context(), ns, metav1.UpdateOptions{})
		return err
	}
	if err := finalize(before); !apierrors.IsConflict(err) {
		t.Errorf("an older version: %v", err)
	}
	if err := finalize(after); err != nil {
		t.Error(err)
	}
	if _, ok := Get[*corev1.Namespace](w, "", "a"); ok {
		t.Error("it stays")
	}
}
