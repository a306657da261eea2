package horizontalpodautoscaler

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"kcmd.dev/pkg/controller"
)

// failed reports a part of the evaluation that failed, under the reason of the part.
func failed(hpa *autoscalingv2.HorizontalPodAutoscaler, reason string, err error) controller.Event {
	return controller.Warning(hpa, reason, "%v", err)
}

func failedRescale(hpa *autoscalingv2.HorizontalPodAutoscaler, w want, err error) controller.Event {
	return controller.Warning(hpa, "FailedRescale", "New size: %d; reason: %s; error: %v", w.replicas, w.reason, err)
}

func rescaled(hpa *autoscalingv2.HorizontalPodAutoscaler, w want) controller.Event {
	return controller.Normal(hpa, "SuccessfulRescale", "New size: %d; reason: %s", w.replicas, w.reason)
}
