package simulation

import (
	"fmt"
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

func TestTheDeletionOfACollectionMayStopHalfWay(t *testing.T) {
	left := map[int]bool{}
	for seed := range uint64(200) {
		w := New(t, seed)
		for i := range 3 {
			w.Create(newPod(fmt.Sprint("p", i)))
		}
		w.Faulty = true
		err := w.Client.CoreV1().Pods("ns").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
		n := len(All[*corev1.Pod](w))
		if left[n] = true; n > 0 && err == nil {
			t.Errorf("%d pods are left, and the answer is no error", n)
		}
	}
	if !left[0] || !left[1] || !left[2] || !left[3] {
		t.Errorf("left were %v", left)
	}
}

func TestReleaseTakesTheFinalizersOfWhatIsDeleted(t *testing.T) {
	w := New(t, 1)
	held := func(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} }
	w.Create(newPod("stays", held))
	for i := range 9 {
		w.Delete(w.Create(newPod(fmt.Sprint("p", i), held)), nil)
	}
	did := Release[*corev1.Pod](w, false)
	if n := len(All[*corev1.Pod](w)); !did || n == 1 || n == 10 {
		t.Errorf("%d are left of ten, some were released: %t", n, did)
	}
	if !Release[*corev1.Pod](w, true) || Release[*corev1.Pod](w, true) {
		t.Error("not all are released at once")
	}
	if left := All[*corev1.Pod](w); len(left) != 1 || len(left[0].Finalizers) != 1 {
		t.Errorf("left are %v", left)
	}
}
