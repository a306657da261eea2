package daemonset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controller"
)

func selectingAll(ds *appsv1.DaemonSet) controller.Event {
	return controller.Warning(ds, "SelectingAll",
		"This daemon set is selecting all pods. A non-empty selector is required.")
}

func failedPod(ds *appsv1.DaemonSet, pod *corev1.Pod, node string) controller.Event {
	return controller.Warning(ds, "FailedDaemonPod", "Found failed daemon pod %s/%s on node %s, will try to kill it",
		pod.Namespace, pod.Name, node)
}

func loosePods(ds *appsv1.DaemonSet, n int) controller.Event {
	return controller.Warning(ds, "FailedPlacement",
		"%d daemon pods may be scheduled to any node, so as many fewer are created: "+
			"an admission webhook may change their node affinity", n)
}

func succeededPod(ds *appsv1.DaemonSet, pod *corev1.Pod, node string) controller.Event {
	return controller.Normal(ds, "SucceededDaemonPod",
		"Found succeeded daemon pod %s/%s on node %s, will try to delete it", pod.Namespace, pod.Name, node)
}
