package nodelifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// markPodsOf marks the pods of a node that has fallen silent, until it is ready again. The order stays until none of them
// is missing at the API server: only the cache shows whether a missing one is gone, since an admission webhook may give
// the same answer.
func (c *lifecycleController) markPodsOf(ctx context.Context, node string) error {
	order := c.cluster.toMark(node)
	if order == 0 {
		return nil
	}
	all, err := c.podsOn.On(node)
	if err != nil {
		return err
	}
	var errs []error
	missing := false
	for _, pod := range all {
		if c.cluster.toMark(node) == 0 {
			return nil
		}
		found, err := c.markPod(ctx, pod)
		missing = missing || !found
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if missing {
		c.markQueue.AddAfter(node, reconcile.RecheckAfter)
		return nil
	}
	c.cluster.marked(node, order)
	return nil
}

// reconcilePod marks a pod that was bound to a node which is not ready.
func (c *lifecycleController) reconcilePod(ctx context.Context, key types.NamespacedName) error {
	pod, found, err := reconcile.Found(c.pods.Pods(key.Namespace).Get(key.Name))
	if !found {
		return err
	}
	if !isNotReady(c.cluster.readiness(pod.Spec.NodeName)) {
		return nil
	}
	found, err = c.markPod(ctx, pod)
	if !found {
		c.podQueue.AddAfter(key, reconcile.RecheckAfter)
	}
	return err
}

// isShownReady reports whether a pod has to be marked when its node is not ready.
func isShownReady(pod *corev1.Pod) bool {
	ready := pods.ReadyCondition(pod)
	return ready != nil && ready.Status != corev1.ConditionFalse
}

// markPod marks a pod as not ready, unless it is already marked. It reports false if the API server says that the pod
// does not exist. After a conflict it has to be tried again: another pod has its name, as the cache will show, or
// others change this one, and no event of a pod on a node brings it back.
func (c *lifecycleController) markPod(ctx context.Context, pod *corev1.Pod) (found bool, err error) {
	if !isShownReady(pod) {
		return true, nil
	}
	body, err := notReadyPatch(pod, c.Clock.Now())
	if err != nil {
		return true, err
	}
	err = pods.PatchStatus(ctx, c.Client, pod, body)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsConflict(err), controller.IsPaused(err): // until a pause ends, the pod is shown as ready
		return true, fmt.Errorf("marking pod %s/%s as not ready: %w", pod.Namespace, pod.Name, err)
	}
	c.Record(podNotReady(pod))
	if err != nil {
		return true, fmt.Errorf("marking pod %s/%s as not ready: %w", pod.Namespace, pod.Name, err)
	}
	return true, nil
}

// notReadyPatch returns the strategic merge patch that sets the Ready condition of a pod to False and keeps
// its other fields. The API server rejects the patch for another pod of the same name.
func notReadyPatch(pod *corev1.Pod, now time.Time) ([]byte, error) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": corev1.PodReady, "status": corev1.ConditionFalse, "lastTransitionTime": metav1.NewTime(now),
		}}},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the condition of a pod: %w", err)
	}
	return body, nil
}
