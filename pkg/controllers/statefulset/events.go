package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controller"
)

// verb is an action on a pod, as named in reasons and messages of events.
type verb string

const (
	verbCreate verb = "Create"
	verbUpdate verb = "Update"
	verbDelete verb = "Delete"
)

func podSucceeded(set *appsv1.StatefulSet, pod *corev1.Pod, v verb) controller.Event {
	return controller.Normal(set, "Successful"+string(v), "%s Pod %s in StatefulSet %s successful", v, pod.Name, set.Name)
}

func podFailed(set *appsv1.StatefulSet, pod *corev1.Pod, v verb, err error) controller.Event {
	return controller.Warning(set, "Failed"+string(v), "%s Pod %s in StatefulSet %s failed error: %v",
		v, pod.Name, set.Name, err)
}

func claimCreated(set *appsv1.StatefulSet, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) controller.Event {
	return controller.Normal(set, "SuccessfulCreate", "Create Claim %s Pod %s in StatefulSet %s success",
		claim.Name, pod.Name, set.Name)
}

func claimFailed(
	set *appsv1.StatefulSet, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, err error,
) controller.Event {
	return controller.Warning(set, "FailedCreate", "Create Claim %s for Pod %s in StatefulSet %s failed error: %v",
		claim.Name, pod.Name, set.Name, err)
}

// conflictingController keeps the spelling of upstream, which users may match on.
func conflictingController(set *appsv1.StatefulSet, claim *corev1.PersistentVolumeClaim) controller.Event {
	return controller.Warning(set, "ConflictingController",
		"PersistentVolumeClaim %s has a conflicting OwnerReference that acts as a manging controller, "+
			"the retention policy is ignored for this claim", claim.Name)
}
