package disruption

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

func (c *disruptionController) tellSeveralBudgets(pod *corev1.Pod, chosen string) {
	c.events.Eventf(pod, corev1.EventTypeWarning, "MultiplePodDisruptionBudgets",
		"Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", pod.Namespace, pod.Name, chosen)
}

func (c *disruptionController) tellPodsUnknown(budget *policyv1.PodDisruptionBudget, err error) {
	c.events.Eventf(budget, corev1.EventTypeWarning, "NoPods", "Failed to get pods: %v", err)
}

func (c *disruptionController) tellNoPods(budget *policyv1.PodDisruptionBudget) {
	c.events.Event(budget, corev1.EventTypeNormal, "NoPods", "No matching pods found")
}

func (c *disruptionController) tellExpectedUnknown(budget *policyv1.PodDisruptionBudget, err error) {
	c.events.Eventf(budget, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed",
		"Failed to calculate the number of expected pods: %v", err)
}

func (c *disruptionController) tellUnmanaged(budget *policyv1.PodDisruptionBudget) {
	c.events.Eventf(budget, corev1.EventTypeWarning, "UnmanagedPods",
		"Pods selected by this PodDisruptionBudget (selector: %v) were found to be unmanaged. "+
			"As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "+
			`To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.`, budget.Spec.Selector)
}

// tellNotDeleted names the namespace of the budget where one would expect its name:
// that is the message people know.
func (c *disruptionController) tellNotDeleted(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) {
	c.events.Eventf(pod, corev1.EventTypeWarning, "NotDeleted",
		"Pod was expected by PDB %s/%s to be deleted but it wasn't", budget.Namespace, budget.Namespace)
}
