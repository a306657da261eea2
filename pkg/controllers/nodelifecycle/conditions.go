package nodelifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reported lists the conditions that only the kubelet reports. Others report NetworkUnavailable.
var reported = [...]corev1.NodeConditionType{
	corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
}

// unknownConditions returns the conditions of a node that has fallen silent.
func unknownConditions(node *corev1.Node, now time.Time) []corev1.NodeCondition {
	conditions := slices.Clone(node.Status.Conditions)
	for _, is := range reported {
		i := slices.IndexFunc(conditions, func(c corev1.NodeCondition) bool { return c.Type == is })
		if i < 0 {
			conditions = append(conditions, corev1.NodeCondition{
				Type:               is,
				Status:             corev1.ConditionUnknown,
				Reason:             "NodeStatusNeverUpdated",
				Message:            "Kubelet never posted node status.",
				LastHeartbeatTime:  node.CreationTimestamp,
				LastTransitionTime: metav1.NewTime(now),
			})
			continue
		}
		if c := &conditions[i]; c.Status != corev1.ConditionUnknown {
			c.Status = corev1.ConditionUnknown
			c.Reason, c.Message = "NodeStatusUnknown", "Kubelet stopped posting node status."
			c.LastTransitionTime = metav1.NewTime(now)
		}
	}
	return conditions
}
