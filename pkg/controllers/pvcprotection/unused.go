package pvcprotection

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// showWhetherUsed updates the condition Unused of a claim and returns the updated claim.
func (c *protectionController) showWhetherUsed(
	ctx context.Context, claim *corev1.PersistentVolumeClaim,
) (*corev1.PersistentVolumeClaim, error) {
	if isShownUnused(claim) && !c.isUsedByCached(ctx, claim) {
		return claim, nil // a pod that the cache does not show yet causes an event
	}
	used, err := c.isUsed(ctx, claim)
	if err != nil && !reconcile.IsRequeue(err) {
		return claim, err
	}
	condition := conditionFor(claim, used, c.Clock.Now())
	if condition == nil {
		return claim, err
	}
	claim = claim.DeepCopy()
	claim.Status.Conditions = with(claim.Status.Conditions, *condition)
	claims := c.Client.CoreV1().PersistentVolumeClaims(claim.Namespace)
	written, failure := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return written, cmp.Or(failure, err)
}

// conditionFor returns the condition Unused to set on a claim, or nil if the claim already has it.
func conditionFor(
	claim *corev1.PersistentVolumeClaim, used bool, now time.Time,
) *corev1.PersistentVolumeClaimCondition {
	has := unusedCondition(claim)
	condition := corev1.PersistentVolumeClaimCondition{
		Type:               corev1.PersistentVolumeClaimUnused,
		LastTransitionTime: metav1.NewTime(now),
	}
	switch {
	case used && (has == nil || has.Status == corev1.ConditionTrue):
		condition.Status, condition.Reason = corev1.ConditionFalse, "PodUsingPVC"
		condition.Message = "A pod is currently referencing this PVC"
	case !used && !isShownUnused(claim):
		condition.Status, condition.Reason = corev1.ConditionTrue, "NoPodsUsingPVC"
		condition.Message = "No pods are currently referencing this PVC"
	default:
		return nil
	}
	return &condition
}

// with replaces the condition of the same type in place, or appends the condition.
func with(
	conditions []corev1.PersistentVolumeClaimCondition, condition corev1.PersistentVolumeClaimCondition,
) []corev1.PersistentVolumeClaimCondition {
	if i := indexOf(conditions, condition.Type); i >= 0 {
		conditions[i] = condition
		return conditions
	}
	return append(conditions, condition)
}

func unusedCondition(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaimCondition {
	if i := indexOf(claim.Status.Conditions, corev1.PersistentVolumeClaimUnused); i >= 0 {
		return &claim.Status.Conditions[i]
	}
	return nil
}

func indexOf(conditions []corev1.PersistentVolumeClaimCondition, of corev1.PersistentVolumeClaimConditionType) int {
	return slices.IndexFunc(conditions, func(c corev1.PersistentVolumeClaimCondition) bool { return c.Type == of })
}

func isShownUnused(claim *corev1.PersistentVolumeClaim) bool {
	condition := unusedCondition(claim)
	return condition != nil && condition.Status == corev1.ConditionTrue
}
