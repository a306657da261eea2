package resourceclaim

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	schedulingv1alpha2apply "k8s.io/client-go/applyconfigurations/scheduling/v1alpha2"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// status is the recorded claim of an entry, of a pod or a PodGroup.
type status = corev1.PodResourceClaimStatus

var applied = metav1.ApplyOptions{FieldManager: fieldManager, Force: true}

// withFound returns what is recorded together with what was found, which replaces that of the same
// entry.
func withFound(recorded, found []status) []status {
	all := slices.Clone(recorded)
	for _, f := range found {
		if i := slices.IndexFunc(all, func(s status) bool { return s.Name == f.Name }); i >= 0 {
			all[i] = f
			continue
		}
		all = append(all, f)
	}
	return all
}

// recordInPod writes what was found into the status of a pod, and returns what it has then. All
// entries are applied, since those that are left out would be removed.
func (c *claimController) recordInPod(ctx context.Context, pod *corev1.Pod, found []status) ([]status, error) {
	all := withFound(pod.Status.ResourceClaimStatuses, found)
	if resourceclaim.PodStatusEqual(pod.Status.ResourceClaimStatuses, all) {
		return all, nil
	}
	body := corev1apply.PodStatus()
	for _, s := range all {
		body.WithResourceClaimStatuses(&corev1apply.PodResourceClaimStatusApplyConfiguration{Name: &s.Name, ResourceClaimName: s.ResourceClaimName})
	}
	_, err := c.Client.CoreV1().Pods(pod.Namespace).ApplyStatus(ctx, corev1apply.Pod(pod.Name, pod.Namespace).WithUID(pod.UID).WithStatus(body), applied)
	if err != nil {
		return nil, stale(err, fmt.Sprintf("update pod %s/%s ResourceClaimStatuses", pod.Namespace, pod.Name))
	}
	return all, nil
}

// recordInGroup is recordInPod for a PodGroup.
func (c *claimController) recordInGroup(ctx context.Context, group *schedulingv1alpha2.PodGroup, found []status) error {
	recorded := make([]status, 0, len(group.Status.ResourceClaimStatuses))
	for _, s := range group.Status.ResourceClaimStatuses {
		recorded = append(recorded, status(s))
	}
	all := withFound(recorded, found)
	if resourceclaim.PodStatusEqual(recorded, all) {
		return nil
	}
	body := schedulingv1alpha2apply.PodGroupStatus()
	for _, s := range all {
		body.WithResourceClaimStatuses(&schedulingv1alpha2apply.PodGroupResourceClaimStatusApplyConfiguration{Name: &s.Name, ResourceClaimName: s.ResourceClaimName})
	}
	_, err := c.Client.SchedulingV1alpha2().PodGroups(group.Namespace).ApplyStatus(ctx,
		schedulingv1alpha2apply.PodGroup(group.Name, group.Namespace).WithUID(group.UID).WithStatus(body), applied)
	if err != nil {
		return stale(err, fmt.Sprintf("update PodGroup %s/%s ResourceClaimStatuses", group.Namespace, group.Name))
	}
	return nil
}

// stale wraps the error of a write. NotFound as the answer says that the cache is behind, and is no failure, or comes
// from an admission webhook: no event tells when that stops, so the key waits no longer than for a cache.
func stale(err error, doing string) error {
	wrapped := fmt.Errorf("%s: %w", doing, err)
	if apierrors.IsNotFound(err) {
		return reconcile.AwaitCache(wrapped)
	}
	return wrapped
}
