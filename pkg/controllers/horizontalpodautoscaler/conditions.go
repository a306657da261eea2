package horizontalpodautoscaler

import (
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Short names of the types of the API.
type (
	statusCondition = autoscalingv2.HorizontalPodAutoscalerCondition
	conditionType   = autoscalingv2.HorizontalPodAutoscalerConditionType
)

// setTrue sets a condition to True, with a formatted message.
func (e *evaluation) setTrue(kind conditionType, reason, format string, args ...any) {
	e.set(kind, corev1.ConditionTrue, reason, fmt.Sprintf(format, args...))
}

// setFalse sets a condition to False, with a formatted message.
func (e *evaluation) setFalse(kind conditionType, reason, format string, args ...any) {
	e.set(kind, corev1.ConditionFalse, reason, fmt.Sprintf(format, args...))
}

// set updates a condition in place or appends it. The transition time is when its status
// changed.
func (e *evaluation) set(kind conditionType, status corev1.ConditionStatus, reason, message string) {
	conditions := e.hpa.Status.Conditions
	i := slices.IndexFunc(conditions, func(c statusCondition) bool { return c.Type == kind })
	if i < 0 {
		i = len(conditions)
		conditions = append(conditions, statusCondition{Type: kind})
	}
	c := &conditions[i]
	if c.Status != status {
		c.LastTransitionTime = metav1.NewTime(e.now)
	}
	c.Status, c.Reason, c.Message = status, reason, message
	e.hpa.Status.Conditions = conditions
}

func (e *evaluation) hasCondition(kind conditionType) bool {
	return isTrue(e.hpa.Status.Conditions, kind)
}

func isTrue(conditions []statusCondition, kind conditionType) bool {
	return slices.ContainsFunc(conditions, func(c statusCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

func (e *evaluation) removeCondition(kind conditionType) {
	e.hpa.Status.Conditions = slices.DeleteFunc(e.hpa.Status.Conditions, func(c statusCondition) bool {
		return c.Type == kind
	})
}
