package pods

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"

	"kcmd.dev/pkg/controller"
)

// Requests about single pods, for controllers that do not own them. Errors are those of the API server.

// PatchStatus sends a strategic merge patch for the status of a pod.
func PatchStatus(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, patch []byte) error {
	_, err := client.CoreV1().Pods(pod.Namespace).
		Patch(controller.OnlyMetadata(ctx), pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// StatusPatch returns the strategic merge patch from the status of a pod to another one. What unchanged has of the
// metadata of the pod is a precondition.
func StatusPatch(pod *corev1.Pod, status corev1.PodStatus, unchanged metav1.ObjectMeta) ([]byte, error) {
	before, err := json.Marshal(corev1.Pod{Status: pod.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(corev1.Pod{ObjectMeta: unchanged, Status: status})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
}

// MarkDisrupted sets a condition of a pod that is about to be deleted, unless it has that already: see DisruptionPatch.
func MarkDisrupted(
	ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, condition corev1.PodCondition,
) error {
	patch, err := DisruptionPatch(pod, condition)
	if err != nil || patch == nil {
		return err
	}
	return PatchStatus(ctx, client, pod, patch)
}

// Delete deletes a pod, but not another one that has its name by now. graceSeconds is the grace period, nil for that of
// the pod.
func Delete(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, graceSeconds *int64) error {
	return client.CoreV1().Pods(pod.Namespace).Delete(controller.OnlyMetadata(ctx), pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: graceSeconds,
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
}
