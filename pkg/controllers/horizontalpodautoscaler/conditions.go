package horizontalpodautoscaler

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// set updates a condition in place or appends it. The transition time is when its status
// changed.
func (e *evaluation) set(kind autoscalingv2.HorizontalPodAutoscalerConditionType, status corev1.ConditionStatus, reason, message string) {
	conditions := e.hpa.Status.Conditions
	i := slices.IndexFunc(conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == kind })
	if i < 0 {
		i = len(conditions)
		conditions = append(conditions, autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind})
	}
	c := &conditions[i]
	if c.Status != status {
		c.LastTransitionTime = metav1.NewTime(e.now)
	}
	c.Status, c.Reason, c.Message = status, reason, message
	e.hpa.Status.Conditions = conditions
}

func (e *evaluation) hasCondition(kind autoscalingv2.HorizontalPodAutoscalerConditionType) bool {
	return isTrue(e.hpa.Status.Conditions, kind)
}

func isTrue(conditions []autoscalingv2.HorizontalPodAutoscalerCondition, kind autoscalingv2.HorizontalPodAutoscalerConditionType) bool {
	return slices.ContainsFunc(conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

func (e *evaluation) removeCondition(kind autoscalingv2.HorizontalPodAutoscalerConditionType) {
	e.hpa.Status.Conditions = slices.DeleteFunc(e.hpa.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == kind
	})
}
