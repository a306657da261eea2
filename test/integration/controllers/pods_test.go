package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controlplane"
)

const (
	// hold is a finalizer that keeps an object until the test takes it off.
	hold = "test.kcmd.dev/hold"
	// ghost is a node that does not exist: nobody runs or ends its pods.
	ghost = "ghost"
)

func podSpec(image string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}}
}

// template makes a pod template with the label app=<app>.
func template(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       podSpec(image),
	}
}

// unschedulable keeps the template's pods Pending.
func unschedulable(t *corev1.PodTemplateSpec) {
	t.Spec.NodeSelector = map[string]string{"no-node": "has-this"}
}

// createPod creates a pod with the label app=<app>.
func createPod(t *testing.T, namespace, name, app string, edit func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}}, Spec: podSpec("web")}
	if edit != nil {
		edit(pod)
	}
	return must(admin.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
}

// onNode puts a pod on the i-th node.
func onNode(i int) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = controlplane.NodeName(i) }
}

func podsOf(ctx context.Context, namespace string, match map[string]string) ([]corev1.Pod, error) {
	list, err := admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(match).String()})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// waitForReadyPods waits until just count pods match and all are Ready, and returns
// them.
func waitForReadyPods(t *testing.T, namespace string, match map[string]string, count int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	eventually(t, fmt.Sprintf("%d pods are Ready", count), func(ctx context.Context) (err error) {
		if pods, err = podsOf(ctx, namespace, match); err != nil {
			return err
		}
		ready := 0
		for i := range pods {
			if isReady(&pods[i]) && pods[i].DeletionTimestamp == nil {
				ready++
			}
		}
		if ready != count || len(pods) != count {
			return fmt.Errorf("%d of %d pods are", ready, len(pods))
		}
		return nil
	})
	return pods
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// setReady changes the Ready condition of a pod, as a kubelet would.
func setReady(t *testing.T, namespace, name string, status corev1.ConditionStatus) {
	t.Helper()
	patchStatus(t, namespace, name, map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": status, "lastTransitionTime": metav1.Now(),
	}}})
}

func patchStatus(t *testing.T, namespace, name string, status map[string]any) {
	t.Helper()
	patch := must(json.Marshal(map[string]any{"status": status}))(t)
	must(admin.CoreV1().Pods(namespace).Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"))(t)
}

// patchPod applies a merge patch.
func patchPod(t *testing.T, namespace, name, patch string) {
	t.Helper()
	must(admin.CoreV1().Pods(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
}

const noFinalizers = `{"metadata":{"finalizers":null}}`

// deleteNow deletes a pod without waiting for anybody.
func deleteNow(t *testing.T, namespace, name string) {
	t.Helper()
	options := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := admin.CoreV1().Pods(namespace).Delete(t.Context(), name, options); err != nil {
		t.Fatal(err)
	}
}

// follow calls observe for every event of a watch, in order, from now until the end
// of the test or until stop is called, which returns when observe is not called any
// more. What observe reports fails the test, and so does a watch that ends early.
func follow[T any](t *testing.T, w watch.Interface, err error, observe func(watch.EventType, T) error) (stop func()) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var stopping atomic.Bool
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if stopping.Load() || t.Context().Err() != nil {
				return
			}
			object, ok := e.Object.(T)
			if !ok {
				t.Errorf("the watch failed: %v", e.Object)
				return
			}
			if err := observe(e.Type, object); err != nil {
				t.Error(err)
				return
			}
		}
		if !stopping.Load() && t.Context().Err() == nil {
			t.Error("the watch ended")
		}
	}()
	stop = func() {
		stopping.Store(true)
		w.Stop()
		<-done
	}
	t.Cleanup(stop)
	return stop
}
