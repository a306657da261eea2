package disruption

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"kcmd.dev/pkg/controller"
)

func severalBudgets(pod *corev1.Pod, chosen string) controller.Event {
	return controller.Warning(pod, "MultiplePodDisruptionBudgets",
		"Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", pod.Namespace, pod.Name, chosen)
}

func podsUnknown(budget *policyv1.PodDisruptionBudget, err error) controller.Event {
	return controller.Warning(budget, "NoPods", "Failed to get pods: %v", err)
}

func noPods(budget *policyv1.PodDisruptionBudget) controller.Event {
	return controller.Normal(budget, "NoPods", "No matching pods found")
}

func expectedUnknown(budget *policyv1.PodDisruptionBudget, err error) controller.Event {
	return controller.Warning(budget, "CalculateExpectedPodCountFailed",
		"Failed to calculate the number of expected pods: %v", err)
}

func unmanagedPods(budget *policyv1.PodDisruptionBudget) controller.Event {
	return controller.Warning(budget, "UnmanagedPods",
		"Pods selected by this PodDisruptionBudget (selector: %v) were found to be unmanaged. "+
			"As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "+
			`To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.`,
		budget.Spec.Selector)
}

// notDeleted has the namespace of the budget where its name would be expected, as upstream has.
func notDeleted(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) controller.Event {
	return controller.Warning(pod, "NotDeleted",
		"Pod was expected by PDB %s/%s to be deleted but it wasn't", budget.Namespace, budget.Namespace)
}
