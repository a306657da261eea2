package resourcequota

import (
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// podNames are the names that limit pods, besides those with a prefix.
var podNames = []corev1.ResourceName{
	"count/pods",
	corev1.ResourcePods,
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
}

// limitsPod reports whether a quota of that name limits pods.
func limitsPod(name corev1.ResourceName) bool {
	return slices.Contains(podNames, name) || isHugePages(name) ||
		strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix) || isExtendedQuota(name)
}

// podUsage returns what a pod uses. One that has ended, or that should have, counts only as a
// stored object.
func podUsage(pod *corev1.Pod, now time.Time, f features) corev1.ResourceList {
	used := corev1.ResourceList{"count/pods": one}
	if !isCharged(pod, now) {
		return used
	}
	used[corev1.ResourcePods] = one
	options := resource.PodResourcesOptions{UseStatusResources: f.podResize, SkipPodLevelResources: !f.podLevel}
	for name, quantity := range resource.PodRequests(pod, options) {
		switch {
		case isCompute(name) || isHugePages(name):
			used[name], used[requests+name] = quantity, quantity
		case isExtended(name):
			used[requests+name] = quantity
		}
	}
	for name, quantity := range resource.PodLimits(pod, options) {
		if isCompute(name) {
			used["limits."+name] = quantity
		}
	}
	return used
}

func isCompute(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

// isCharged reports whether a pod uses resources: it has neither ended nor outlived the end of
// its deletion.
func isCharged(pod *corev1.Pod, now time.Time) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return false
	}
	release, ok := releasedAt(pod)
	return !ok || !now.After(release)
}

// longestGrace is the largest number of seconds that a duration holds. The API limits no grace period.
const longestGrace = int64(math.MaxInt64 / time.Second)

// releasedAt returns from when on a pod that is being deleted uses nothing, whether it is gone or
// not. The time of deletion includes the grace period; it is granted once more.
func releasedAt(pod *corev1.Pod) (time.Time, bool) {
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return time.Time{}, false
	}
	grace := time.Duration(min(*pod.DeletionGracePeriodSeconds, longestGrace)) * time.Second
	return pod.DeletionTimestamp.Add(grace), true
}

// releasesPod reports whether after an update of a pod a quota may have room again.
func releasesPod(old, new *corev1.Pod, now time.Time) bool {
	return isLimitedInTime(old) != isLimitedInTime(new) ||
		isCharged(old, now) && !isCharged(new, now) ||
		wasResized(old.Status.ContainerStatuses, new.Status.ContainerStatuses) ||
		wasResized(old.Status.InitContainerStatuses, new.Status.InitContainerStatuses) ||
		resource.IsPodResizeInfeasible(old) != resource.IsPodResizeInfeasible(new) ||
		!sameResources(old.Spec.Resources, new.Spec.Resources) ||
		asksForOthers(old.Spec.Containers, new.Spec.Containers) ||
		asksForOthers(old.Spec.InitContainers, new.Spec.InitContainers)
}

// asksForOthers reports whether a container asks for other resources than before. Containers of a pod stay the same
// otherwise.
func asksForOthers(old, new []corev1.Container) bool {
	for i := range min(len(old), len(new)) {
		if !sameResources(&old[i].Resources, &new[i].Resources) {
			return true
		}
	}
	return false
}

// wasResized reports whether a container that is in both statuses has other resources, or other ones allocated to it.
func wasResized(old, new []corev1.ContainerStatus) bool {
	for i := range new {
		is := &new[i]
		for j := range old {
			if was := &old[j]; was.Name == is.Name &&
				!(sameResources(was.Resources, is.Resources) && same(was.AllocatedResources, is.AllocatedResources)) {
				return true
			}
		}
	}
	return false
}

func sameResources(a, b *corev1.ResourceRequirements) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a == b || same(a.Requests, b.Requests) && same(a.Limits, b.Limits) && slices.Equal(a.Claims, b.Claims)
}
