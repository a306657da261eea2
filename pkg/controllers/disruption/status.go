package disruption

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	pdbhelper "k8s.io/component-helpers/apps/poddisruptionbudget"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// evictionTimeout is how long it may take until the deletion of an evicted pod is observed.
const evictionTimeout = 2 * time.Minute

// counts are numbers of pods of a budget: expected to exist, desired to be healthy, and
// healthy.
type counts struct{ expected, desired, healthy int32 }

// needsReplicas reports whether a budget depends on the replicas of its pods' controllers, not
// on the number of existing pods.
func needsReplicas(spec *policyv1.PodDisruptionBudgetSpec) bool {
	return spec.MaxUnavailable != nil || spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.String
}

// wanted returns how many of the expected pods should be healthy. Percentages are rounded up.
func wanted(spec *policyv1.PodDisruptionBudgetSpec, expected int32) (counts, error) {
	switch {
	case spec.MaxUnavailable != nil:
		unavailable, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, int(expected), true)
		if err != nil {
			return counts{}, err
		}
		return counts{expected: expected, desired: max(0, expected-int32(unavailable))}, nil
	case spec.MinAvailable != nil:
		available, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, int(expected), true)
		if err != nil {
			return counts{}, err
		}
		return counts{expected: expected, desired: int32(available)}, nil
	}
	return counts{}, nil
}

// allowed returns how many more pods may be evicted.
func (c counts) allowed() int32 {
	if c.expected <= 0 {
		return 0
	}
	return max(0, c.healthy-c.desired)
}

// evictions are the evictions that the API server recorded.
type evictions struct {
	// pending are those whose pods have not been deleted yet.
	pending map[string]metav1.Time
	// overdue are pods that should have been deleted.
	overdue []*corev1.Pod
	// next is when the first pending one becomes overdue; zero if there is none.
	next time.Time
}

// judgeEvictions judges recorded evictions by the pods that a cache shows. If that may be older than the evictions,
// those of pods that it lacks, or shows as being deleted, are pending, too: it may yet show an evicted pod as healthy.
func judgeEvictions(recorded map[string]metav1.Time, selected []*corev1.Pod, older bool, now time.Time) evictions {
	found := evictions{pending: map[string]metav1.Time{}}
	if len(recorded) == 0 {
		return found
	}
	shown := map[string]*corev1.Pod{}
	for _, pod := range selected {
		if _, evicted := recorded[pod.Name]; evicted && pod.DeletionTimestamp == nil {
			shown[pod.Name] = pod
		}
	}
	for name, at := range recorded {
		due := at.Add(evictionTimeout)
		pod := shown[name]
		switch {
		case pod != nil && due.Before(now):
			found.overdue = append(found.overdue, pod)
		case pod != nil || older && !due.Before(now):
			found.pending[name] = at
			if pod == nil && due.Sub(now) > reconcile.RecheckAfter {
				due = now.Add(reconcile.RecheckAfter) // no event follows when the cache is as new
			}
			if found.next.IsZero() || due.Before(found.next) {
				found.next = due
			}
		}
	}
	slices.SortFunc(found.overdue, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// countHealthy counts the pods that are Ready, not being deleted, and not recorded as evicted.
func countHealthy(selected []*corev1.Pod, pending map[string]metav1.Time, now time.Time) int32 {
	var healthy int32
	for _, pod := range selected {
		if pod.DeletionTimestamp != nil || !pods.IsReady(pod) {
			continue
		}
		if at, evicted := pending[pod.Name]; evicted && at.Add(evictionTimeout).After(now) {
			continue
		}
		healthy++
	}
	return healthy
}

// statusOf returns the desired status of a budget. Its conditions are those of the budget;
// setAllowed updates them.
func statusOf(
	budget *policyv1.PodDisruptionBudget, c counts, pending map[string]metav1.Time,
) policyv1.PodDisruptionBudgetStatus {
	return policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: budget.Generation,
		DisruptedPods:      pending,
		DisruptionsAllowed: c.allowed(),
		CurrentHealthy:     c.healthy,
		DesiredHealthy:     c.desired,
		ExpectedPods:       c.expected,
		Conditions:         append([]metav1.Condition{}, budget.Status.Conditions...),
	}
}

// setAllowed sets the condition that reports whether disruptions are allowed.
func setAllowed(status *policyv1.PodDisruptionBudgetStatus, now time.Time) {
	condition := metav1.Condition{
		Type:               policyv1.DisruptionAllowedCondition,
		Status:             metav1.ConditionFalse,
		Reason:             policyv1.InsufficientPodsReason,
		ObservedGeneration: status.ObservedGeneration,
		LastTransitionTime: metav1.NewTime(now),
	}
	if status.DisruptionsAllowed > 0 {
		condition.Status, condition.Reason = metav1.ConditionTrue, policyv1.SufficientPodsReason
	}
	apimeta.SetStatusCondition(&status.Conditions, condition)
}

// failedBudget returns a budget under which nothing may be evicted. The observed generation is
// kept, which shows that this status does not describe the newest one.
func failedBudget(budget *policyv1.PodDisruptionBudget, cause error, now time.Time) *policyv1.PodDisruptionBudget {
	failed := budget.DeepCopy()
	failed.Status.DisruptionsAllowed = 0
	apimeta.SetStatusCondition(&failed.Status.Conditions, metav1.Condition{
		Type:               policyv1.DisruptionAllowedCondition,
		Status:             metav1.ConditionFalse,
		Reason:             policyv1.SyncFailedReason,
		Message:            cause.Error(),
		ObservedGeneration: failed.Status.ObservedGeneration,
		LastTransitionTime: metav1.NewTime(now),
	})
	return failed
}

// isCurrent reports whether a budget has the desired status. A nil and an empty map of
// disrupted pods are equal.
func isCurrent(budget *policyv1.PodDisruptionBudget, status policyv1.PodDisruptionBudgetStatus) bool {
	has := &budget.Status
	return has.CurrentHealthy == status.CurrentHealthy &&
		has.DesiredHealthy == status.DesiredHealthy &&
		has.ExpectedPods == status.ExpectedPods &&
		has.DisruptionsAllowed == status.DisruptionsAllowed &&
		has.ObservedGeneration == status.ObservedGeneration &&
		apiequality.Semantic.DeepEqual(has.DisruptedPods, status.DisruptedPods) &&
		pdbhelper.ConditionsAreUpToDate(budget)
}

func sameStatus(a, b *policyv1.PodDisruptionBudget) bool {
	return apiequality.Semantic.DeepEqual(a.Status, b.Status)
}

// answersAlike reports whether the eviction API treats the present and the desired status of a
// budget alike: only counts that users read differ.
func answersAlike(budget *policyv1.PodDisruptionBudget, status policyv1.PodDisruptionBudgetStatus) bool {
	has := &budget.Status
	return has.DisruptionsAllowed == status.DisruptionsAllowed &&
		has.ObservedGeneration == status.ObservedGeneration &&
		isHealthy(has) == isHealthy(&status) &&
		apiequality.Semantic.DeepEqual(has.DisruptedPods, status.DisruptedPods) &&
		pdbhelper.ConditionsAreUpToDate(budget)
}

// isHealthy reports whether pods that are not Ready may be evicted under the policy
// IfHealthyBudget.
func isHealthy(status *policyv1.PodDisruptionBudgetStatus) bool {
	return status.DesiredHealthy > 0 && status.CurrentHealthy >= status.DesiredHealthy
}
