package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/must"
)

const (
	// Hold is a finalizer that keeps an object until the test takes it off.
	Hold = "test.kcmd.dev/hold"
	// Ghost is a node that does not exist: nobody runs or ends its pods.
	Ghost = "ghost"
)

// PodSpec makes the spec of a pod with one container.
func PodSpec(image string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}}
}

// PodTemplate makes a pod template with the label app=<app>.
func PodTemplate(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       PodSpec(image),
	}
}

// Unschedulable keeps the template's pods Pending.
func Unschedulable(t *corev1.PodTemplateSpec) {
	t.Spec.NodeSelector = map[string]string{"no-node": "has-this"}
}

// CreatePod creates a pod with the label app=<app>.
func (c *Cluster) CreatePod(t testing.TB, namespace, name, app string, edit func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}}, Spec: PodSpec("web")}
	if edit != nil {
		edit(pod)
	}
	return must.Get(c.Admin.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
}

// OnNode puts a pod on the i-th node.
func OnNode(i int) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = controlplane.NodeName(i) }
}

// PodsOf lists the pods of a namespace that have some labels.
func (c *Cluster) PodsOf(ctx context.Context, namespace string, match map[string]string) ([]corev1.Pod, error) {
	list, err := c.Admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(match).String()})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// WaitForReadyPods waits until just count pods match and all are Ready, and returns
// them.
func (c *Cluster) WaitForReadyPods(t testing.TB, namespace string, match map[string]string, count int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	await.That(t, fmt.Sprintf("%d pods are Ready", count), func(ctx context.Context) (err error) {
		if pods, err = c.PodsOf(ctx, namespace, match); err != nil {
			return err
		}
		ready := 0
		for i := range pods {
			if IsReady(&pods[i]) && pods[i].DeletionTimestamp == nil {
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

// IsReady reports the Ready condition of a pod.
func IsReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// SetReady changes the Ready condition of a pod, as a kubelet would.
func (c *Cluster) SetReady(t testing.TB, namespace, name string, status corev1.ConditionStatus) {
	t.Helper()
	c.PatchPodStatus(t, namespace, name, map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": status, "lastTransitionTime": metav1.Now(),
	}}})
}

// PatchPodStatus changes the status of a pod, as a kubelet would. A phase is changed when the pod is not Pending any
// more: the simulated kubelet of its node, which has it Running once, would replace it.
func (c *Cluster) PatchPodStatus(t testing.TB, namespace, name string, status map[string]any) {
	t.Helper()
	if _, ok := status["phase"]; ok {
		await.That(t, "the pod "+name+" has left Pending", func(ctx context.Context) error { return c.hasBegun(ctx, namespace, name) })
	}
	patch := must.Get(json.Marshal(map[string]any{"status": status}))(t)
	must.Get(c.Admin.CoreV1().Pods(namespace).Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"))(t)
}

// hasBegun returns an error while a simulated kubelet has yet to run a pod.
func (c *Cluster) hasBegun(ctx context.Context, namespace, name string) error {
	pod, err := c.Admin.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil || pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodPending {
		return err
	}
	node, err := c.Admin.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && node.Annotations["kwok.x-k8s.io/node"] == "" {
		return nil
	}
	if err == nil {
		err = errors.New("it is Pending")
	}
	return err
}

// PatchPod applies a merge patch.
func (c *Cluster) PatchPod(t testing.TB, namespace, name, patch string) {
	t.Helper()
	must.Get(c.Admin.CoreV1().Pods(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
}

// NoFinalizers is a patch that takes all finalizers off an object.
const NoFinalizers = `{"metadata":{"finalizers":null}}`

// DeletePodNow deletes a pod without waiting for anybody. If another pod of its name is created after that, the
// first one has to be Ready: the API server deletes by name when it has carried out a write to the status of a
// pod that was deleted at once meanwhile, such as that of a kubelet, and so would end the second one.
func (c *Cluster) DeletePodNow(t testing.TB, namespace, name string) {
	t.Helper()
	options := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := c.Admin.CoreV1().Pods(namespace).Delete(t.Context(), name, options); err != nil {
		t.Fatal(err)
	}
}

// Follow calls observe for every event of a watch, in order, from now until the end
// of the test or until stop is called, which returns when observe is not called any
// more. What observe reports fails the test, and so does a watch that ends early.
func Follow[T any](t testing.TB, w watch.Interface, err error, observe func(watch.EventType, T) error) (stop func()) {
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
