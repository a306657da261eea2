package resourcequota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/clock"
)

var (
	pods         = corev1.SchemeGroupVersion.WithResource("pods")
	services     = corev1.SchemeGroupVersion.WithResource("services")
	volumeClaims = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	claims       = resourcev1.SchemeGroupVersion.WithResource("resourceclaims")
)

type (
	podAccounts         = accounts[*corev1.Pod, podProfile]
	serviceAccounts     = accounts[*corev1.Service, unscoped]
	volumeClaimAccounts = accounts[*corev1.PersistentVolumeClaim, volumeClaimProfile]
)

func newPodAccounts(c clock.PassiveClock, f features) *podAccounts {
	return newAccounts(pods, c, limitsPod, func(pod *corev1.Pod, now time.Time) entry[podProfile] {
		return entry[podProfile]{
			profile: profileOfPod(pod, f),
			amounts: amountsOf(podUsage(pod, now, f)),
			until:   chargedUntil(pod, now),
		}
	})
}

// chargedUntil returns when the usage of a pod ends although the pod does not change; zero if it
// does not.
func chargedUntil(pod *corev1.Pod, now time.Time) time.Time {
	if release, ok := releasedAt(pod); ok && isCharged(pod, now) {
		return release
	}
	return time.Time{}
}

func newServiceAccounts(c clock.PassiveClock) *serviceAccounts {
	return newAccounts(services, c, limitsService, func(service *corev1.Service, _ time.Time) entry[unscoped] {
		return entry[unscoped]{amounts: amountsOf(serviceUsage(service))}
	})
}

func newVolumeClaimAccounts(c clock.PassiveClock, f features) *volumeClaimAccounts {
	describe := func(claim *corev1.PersistentVolumeClaim, _ time.Time) entry[volumeClaimProfile] {
		return entry[volumeClaimProfile]{
			profile: profileOfVolumeClaim(claim, f),
			amounts: amountsOf(volumeClaimUsage(claim, f)),
		}
	}
	return newAccounts(volumeClaims, c, limitsVolumeClaim, describe)
}
