package simulation

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// sendLate sends requests in a faulty world until one of them is late, and returns its answer.
func sendLate(t *testing.T, w *World, send func() error) error {
	t.Helper()
	w.Faulty, w.MayComeLate = true, AnyWrite
	defer func() { w.Faulty = false }()
	for range 1000 {
		if err := send(); len(w.server.late) > 0 {
			return err
		}
	}
	t.Fatal("no request is late")
	return nil
}

// labelLate has a patch be late that labels a pod, which exists.
func labelLate(t *testing.T, w *World) {
	t.Helper()
	w.Create(newPod("p"))
	err := sendLate(t, w, func() error {
		_, err := w.Client.CoreV1().Pods("ns").Patch(t.Context(), "p", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"late":"yes"}}}`), metav1.PatchOptions{})
		if pod, _ := Get[*corev1.Pod](w, "ns", "p"); isLabelled(w) { // by one that was not late
			Change(w, pod, func(p *corev1.Pod) { delete(p.Labels, "late") })
		}
		return err
	})
	if isLabelled(w) || !apierrors.IsTimeout(err) {
		t.Errorf("the answer is %v, and the pod is labelled: %t", err, isLabelled(w))
	}
}

func isLabelled(w *World) bool {
	pod, exists := Get[*corev1.Pod](w, "ns", "p")
	return exists && pod.Labels["late"] != ""
}

func TestAWriteIsCarriedOutAfterItsSenderHasGivenUp(t *testing.T) {
	for _, tc := range []struct {
		after time.Duration
		want  bool
	}{{time.Second, true}, {lateWithin, true}, {lateWithin + 1, false}} {
		w, n := New(t, 1), 0
		labelLate(t, w)
		w.Answered = func(clienttesting.Action) {
			if w.IsLateWrite() {
				n++
			}
		}
		w.Clock.Step(tc.after)
		w.Settle(time.Minute, nil)
		if isLabelled(w) != tc.want || (n == 1) != tc.want || w.IsLateWrite() {
			t.Errorf("after %v the pod is labelled: %t; %d requests were late", tc.after, isLabelled(w), n)
		}
	}
}

func TestStepsCarryOutLateWrites(t *testing.T) {
	w := New(t, 1)
	labelLate(t, w)
	for steps := 0; len(w.server.late) > 0; steps++ {
		if w.Step(); steps > 1000 {
			t.Fatal("it is late for ever")
		}
	}
	if !isLabelled(w) {
		t.Error("the pod is not labelled")
	}
}

func TestAllLateWritesCanBeAwaited(t *testing.T) {
	w := New(t, 1)
	labelLate(t, w)
	w.AwaitLate()
	if len(w.server.late) > 0 || !isLabelled(w) {
		t.Error("the pod is not labelled")
	}
}

func TestALateWriteCanBeDropped(t *testing.T) {
	w := New(t, 1)
	labelLate(t, w)
	w.DropLate()
	w.AwaitLate()
	if isLabelled(w) {
		t.Error("the pod is labelled")
	}
}

func TestOnlyWritesForWhichTheWorldAllowsItComeLate(t *testing.T) {
	w := New(t, 1)
	w.Faulty = true
	pods := w.Client.CoreV1().Pods("ns")
	for name, tc := range map[string]struct {
		mayComeLate func(clienttesting.Action) bool
		send        func(i int) error
	}{
		"none is allowed": {nil, func(i int) error {
			_, err := pods.Create(t.Context(), newPod(fmt.Sprint("p", i)), metav1.CreateOptions{})
			return err
		}},
		"others are": {func(action clienttesting.Action) bool { return action.GetVerb() == "delete" }, func(i int) error {
			_, err := pods.Create(t.Context(), newPod(fmt.Sprint("q", i)), metav1.CreateOptions{})
			return err
		}},
		"a list": {AnyWrite, func(int) error {
			_, err := pods.List(t.Context(), metav1.ListOptions{})
			return err
		}},
		"a get": {AnyWrite, func(int) error {
			_, err := pods.Get(t.Context(), "p1", metav1.GetOptions{})
			return err
		}},
	} {
		w.MayComeLate = tc.mayComeLate
		failures := 0
		for i := range 300 {
			if err := tc.send(i); err != nil {
				failures++
			}
		}
		if len(w.server.late) > 0 || failures == 0 {
			t.Errorf("%s: %d requests are late, %d failed", name, len(w.server.late), failures)
		}
	}
}

// What is sent may be in order, and not be any more when it is carried out: that is no fault of the sender.
func TestTheAPIServerMayRefuseALateWrite(t *testing.T) {
	w := New(t, 1)
	labelLate(t, w)
	w.Validate = func(_, _ runtime.Object) error { return errors.New("not any more") }
	w.Settle(time.Minute, nil)
	if isLabelled(w) {
		t.Error("it was carried out")
	}
}

func TestLateWritesOfMetadataAreReported(t *testing.T) {
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	for _, served := range []bool{true, false} {
		w := New(t, 1)
		m := ServeMetadata(w)
		w.Create(newPod("p"))
		reported := 0
		m.Done = func(_ clienttesting.Action, before, after metav1.Object) {
			if w.IsLateWrite() && before.GetName() == "p" && after == nil {
				reported++
			}
		}
		if err := sendLate(t, w, func() error {
			err := w.Env.Env.Metadata.Resource(resource).Namespace("ns").Delete(t.Context(), "p", metav1.DeleteOptions{})
			if _, exists := Get[*corev1.Pod](w, "ns", "p"); !exists { // another one was not late
				w.Create(newPod("p"))
			}
			return err
		}); !apierrors.IsTimeout(err) {
			t.Errorf("the answer is %v", err)
		}
		m.Serve(resource, served)
		w.Settle(time.Minute, nil)
		if _, exists := Get[*corev1.Pod](w, "ns", "p"); exists == served || (reported == 1) != served {
			t.Errorf("served: %t, it exists: %t, and %d deletions were reported", served, exists, reported)
		}
	}
}
