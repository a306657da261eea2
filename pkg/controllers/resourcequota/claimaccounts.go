package resourcequota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/index"
)

// deviceClaims are the accounts of ResourceClaims. What a claim for extended resources uses also
// depends on its pod, and on the other claims that were made for the pod.
type deviceClaims struct {
	*accounts[*resourcev1.ResourceClaim, unscoped]
	// classes is nil unless device classes can back extended resources.
	classes  deviceClasses
	pods     cache.Indexer
	features features
}

func newDeviceClaims(c clock.PassiveClock, classes deviceClasses, pods cache.Indexer, f features) *deviceClaims {
	d := &deviceClaims{classes: classes, pods: pods, features: f}
	d.accounts = newAccounts(claims, c, d.limits, d.describe)
	return d
}

// limits reports whether a quota of that name limits ResourceClaims. As long as the classes are not known, it may
// if it limits an extended resource.
func (d *deviceClaims) limits(name corev1.ResourceName) bool {
	if limitsDeviceClaim(name) || d.classes == nil {
		return limitsDeviceClaim(name)
	}
	_, source := d.existing("")
	awaited := source.objects != nil && !source.complete()
	return limitsClassAsExtended(name, d.classes) || awaited && isExtendedQuota(name)
}

func (d *deviceClaims) describe(claim *resourcev1.ResourceClaim, now time.Time) entry[unscoped] {
	devices := devicesByClass(claim)
	used := deviceClaimUsage(devices)
	if d.classes == nil {
		return entry[unscoped]{amounts: amountsOf(used)}
	}
	var accounted corev1.ResourceList
	var until time.Time
	if pod := d.accountingPod(claim); pod != nil {
		accounted, until = podUsage(pod, now, d.features), chargedUntil(pod, now)
	}
	addExtended(used, devices, d.classes, accounted)
	return entry[unscoped]{amounts: amountsOf(used), until: until}
}

// accountingPod returns the pod that accounts for the devices of a claim, nil if there is none.
func (d *deviceClaims) accountingPod(claim *resourcev1.ResourceClaim) *corev1.Pod {
	owner := podOfClaim(claim)
	if owner == nil {
		return nil
	}
	stored, found, err := d.pods.GetByKey(claim.Namespace + "/" + owner.Name)
	pod, ok := stored.(*corev1.Pod)
	if err != nil || !found || !ok || pod.UID != owner.UID {
		return nil
	}
	if !isClaimOfPod(claim, pod, d.madeFor(podKey(pod.Namespace, pod.UID))) {
		return nil
	}
	return pod
}

// madeFor returns the claims that were made for the extended resources of a pod.
func (d *deviceClaims) madeFor(pod string) []*resourcev1.ResourceClaim {
	d.mu.RLock()
	objects := d.objects
	d.mu.RUnlock()
	if objects == nil {
		return nil
	}
	all, err := index.Append[*resourcev1.ResourceClaim](nil, objects, claimsByPod, pod)
	if err != nil {
		return nil // the index exists as long as the cache
	}
	return all
}

// podChanged computes again the entries of the claims that depend on a pod.
func (d *deviceClaims) podChanged(namespace, pod string) {
	if account, _ := d.existing(namespace); account == nil || d.classes == nil {
		return
	}
	for _, claim := range d.madeFor(pod) {
		d.changed(namespace, claim.Name)
	}
}

// claimChanged computes again the entry of a claim, and those of the other claims of its pod. It
// returns false if the claims of the namespace are not accounted for.
func (d *deviceClaims) claimChanged(claim *resourcev1.ResourceClaim) bool {
	if !d.changed(claim.Namespace, claim.Name) {
		return false
	}
	if owner := podOfClaim(claim); owner != nil {
		d.podChanged(claim.Namespace, podKey(claim.Namespace, owner.UID))
	}
	return true
}
