package resourcequota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// podProfile is what the scopes of quotas know of a pod.
type podProfile struct {
	limitedInTime bool
	bestEffort    bool
	// crossesNamespaces is whether its affinity refers to pods of other namespaces.
	crossesNamespaces bool
	priorityClass     string
}

func profileOfPod(pod *corev1.Pod, f features) podProfile {
	return podProfile{
		limitedInTime:     isLimitedInTime(pod),
		bestEffort:        isBestEffort(pod, f),
		crossesNamespaces: crossesNamespaces(pod.Spec.Affinity),
		priorityClass:     pod.Spec.PriorityClassName,
	}
}

// meets reports whether a pod is in a scope.
func (p podProfile) meets(r requirement) bool {
	switch r.scope {
	case corev1.ResourceQuotaScopeTerminating:
		return p.limitedInTime
	case corev1.ResourceQuotaScopeNotTerminating:
		return !p.limitedInTime
	case corev1.ResourceQuotaScopeBestEffort:
		return p.bestEffort
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !p.bestEffort
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return p.crossesNamespaces
	case corev1.ResourceQuotaScopePriorityClass:
		if p.priorityClass == "" {
			return r.metBy()
		}
		return r.metBy(p.priorityClass)
	}
	return false
}

// isLimitedInTime reports whether a pod is what quotas call terminating: one that has a deadline.
func isLimitedInTime(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
}

// isBestEffort reports whether the quality of service of a pod is best effort, which is computed
// as long as its status does not say.
func isBestEffort(pod *corev1.Pod, f features) bool {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass == corev1.PodQOSBestEffort
	}
	if f.podLevel && pod.Spec.Resources != nil {
		return !isAssured(*pod.Spec.Resources)
	}
	assured := func(c corev1.Container) bool { return isAssured(c.Resources) }
	return !slices.ContainsFunc(pod.Spec.Containers, assured) && !slices.ContainsFunc(pod.Spec.InitContainers, assured)
}

// isAssured reports whether there is any request or limit of CPU or memory.
func isAssured(r corev1.ResourceRequirements) bool {
	for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if quantity, ok := list[name]; ok && quantity.Sign() > 0 {
				return true
			}
		}
	}
	return false
}

func crossesNamespaces(affinity *corev1.Affinity) bool {
	if affinity == nil {
		return false
	}
	if a := affinity.PodAffinity; a != nil && anyCrosses(
		a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution) {
		return true
	}
	a := affinity.PodAntiAffinity
	return a != nil && anyCrosses(
		a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
}

// anyCrosses reports whether a term names or selects namespaces.
func anyCrosses(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) bool {
	crosses := func(term corev1.PodAffinityTerm) bool {
		return len(term.Namespaces) > 0 || term.NamespaceSelector != nil
	}
	return slices.ContainsFunc(required, crosses) ||
		slices.ContainsFunc(preferred, func(term corev1.WeightedPodAffinityTerm) bool {
			return crosses(term.PodAffinityTerm)
		})
}
