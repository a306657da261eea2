package devicetainteviction

import (
	"fmt"
	"strings"

	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// counts holds the numbers that the status of a rule shows.
type counts struct {
	published, allocated int // devices
	pods, namespaces     int
	evicted              int // pods
}

// conditionFor returns the condition of a rule, without the transition time.
func conditionFor(rule *resourcev1beta2.DeviceTaintRule, counted counts) metav1.Condition {
	condition := metav1.Condition{
		Type:               resourcev1beta2.DeviceTaintConditionEvictionInProgress,
		Status:             metav1.ConditionFalse,
		ObservedGeneration: rule.Generation,
	}
	namespaces := some(counted.namespaces, "namespace", "different namespaces")
	var message []string
	switch rule.Spec.Taint.Effect {
	case resourcev1beta2.DeviceTaintEffectNoExecute:
		switch {
		case counted.pods > 0:
			condition.Status, condition.Reason = metav1.ConditionTrue, "PodsPendingEviction"
			message = append(message, some(counted.pods, "pod needs", "pods need")+" to be evicted in "+namespaces+".")
		case counted.evicted > 0:
			condition.Reason = "Completed"
		default:
			condition.Reason = "NotStarted"
		}
	case resourcev1beta2.DeviceTaintEffectNone:
		condition.Reason = "NoEffect"
		message = append(message,
			some(counted.published, "published device", "published devices")+" selected.",
			some(counted.allocated, "allocated device", "allocated devices")+" selected.",
			some(counted.pods, "pod", "pods")+" would be evicted in "+namespaces+" if the effect was NoExecute.",
			"This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.")
	default:
		condition.Reason = "OtherEffect"
		message = append(message, "Eviction only happens for the NoExecute effect.")
	}
	if counted.evicted > 0 {
		message = append(message, some(counted.evicted, "pod", "pods")+" evicted since starting the controller.")
	}
	condition.Message = strings.Join(message, " ")
	return condition
}

func some(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
