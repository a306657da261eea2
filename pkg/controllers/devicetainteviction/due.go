package devicetainteviction

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"kcmd.dev/pkg/controllers/kit/index"
)

// reason is a taint that causes an eviction: the taint of a rule, or a taint in a ResourceSlice.
type reason struct {
	rule string
	uid  types.UID // of the rule

	driver, pool, device string
	position             int
}

// isRule reports whether the reason is a rule.
func (r reason) isRule() bool { return r.rule != "" }

// compare sorts rules, by name, before devices.
func (r reason) compare(other reason) int {
	if r.isRule() != other.isRule() {
		if r.isRule() {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(r.rule, other.rule), cmp.Compare(r.uid, other.uid), cmp.Compare(r.driver, other.driver),
		cmp.Compare(r.pool, other.pool), cmp.Compare(r.device, other.device), cmp.Compare(r.position, other.position))
}

// verdict holds the time and the reasons for evicting a pod. The zero value means that the pod stays.
type verdict struct {
	due     time.Time
	reasons []reason // each one once, in order
}

func (v verdict) stays() bool { return v.due.IsZero() }

func (v verdict) equal(other verdict) bool {
	return v.due.Equal(other.due) && slices.Equal(v.reasons, other.reasons)
}

// earlier makes the verdict due at a time if that is earlier. It ignores the zero time.
func (v *verdict) earlier(at time.Time) {
	if !at.IsZero() && (v.stays() || at.Before(v.due)) {
		v.due = at
	}
}

// consider adds a taint of an allocated device to the verdict. A taint that is tolerated forever is not a
// reason. A taint without TimeAdded is a reason, but does not change the due time.
func (v *verdict) consider(tolerations []resourcev1.DeviceToleration, taint *resourcev1.DeviceTaint, why reason) {
	lasts := tolerated(tolerations, taint)
	if lasts == forever {
		return
	}
	v.reasons = append(v.reasons, why)
	if taint.TimeAdded != nil {
		v.earlier(taint.TimeAdded.Add(lasts))
	}
}

// ordered returns the verdict with its reasons sorted and without duplicates.
func (v verdict) ordered() verdict {
	slices.SortFunc(v.reasons, reason.compare)
	v.reasons = slices.Compact(v.reasons)
	return v
}

// forever is the toleration time of a taint that is tolerated without a limit.
const forever time.Duration = math.MaxInt64

// tolerated returns how long a taint is tolerated. This is the shortest time of all matching tolerations,
// 0 if none matches, and forever if one has no limit. Only tolerations with the effect NoExecute count.
func tolerated(tolerations []resourcev1.DeviceToleration, taint *resourcev1.DeviceTaint) time.Duration {
	shortest, matched := forever, false
	for i := range tolerations {
		toleration := &tolerations[i]
		if toleration.Effect != resourcev1.DeviceTaintEffectNoExecute || !resourceclaim.ToleratesTaint(*toleration, *taint) {
			continue
		}
		if toleration.TolerationSeconds == nil {
			return forever
		}
		matched = true
		shortest = min(shortest, durationOf(*toleration.TolerationSeconds))
	}
	if !matched {
		return 0
	}
	return shortest
}

// durationOf converts seconds to a duration. It returns forever if the duration would overflow.
func durationOf(seconds int64) time.Duration {
	if seconds > int64(forever/time.Second) {
		return forever
	}
	return time.Duration(max(0, seconds)) * time.Second
}

// of judges a claim for a pod on a node by the taints of its allocated devices.
func (t taints) of(claim *resourcev1.ResourceClaim, node string) verdict {
	var v verdict
	if claim.Status.Allocation == nil {
		return v
	}
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		driver, pool, device := result.Driver, result.Pool, result.Device
		for _, p := range t.pools[poolKey{driver, pool}].on(node)[device] {
			v.consider(result.Tolerations, &p.taint, reason{driver: driver, pool: pool, device: device, position: p.position})
		}
		for name, rule := range t.rules {
			if selects(rule, driver, pool, device) {
				v.consider(result.Tolerations, taintOf(rule), reason{rule: name, uid: rule.UID})
			}
		}
	}
	if v.stays() {
		return verdict{}
	}
	return v.ordered()
}

// taintOf returns the taint of a rule that evicts pods.
func taintOf(rule *resourcev1beta2.DeviceTaintRule) *resourcev1.DeviceTaint {
	return &resourcev1.DeviceTaint{
		Key:       rule.Spec.Taint.Key,
		Value:     rule.Spec.Taint.Value,
		Effect:    resourcev1.DeviceTaintEffectNoExecute,
		TimeAdded: rule.Spec.Taint.TimeAdded,
	}
}

// ofPod judges a pod by its claims, that for its extended resources included. claimOf returns the claim with a name in the
// namespace of the pod, nil if there is none.
func (t taints) ofPod(pod *corev1.Pod, podGroups bool, claimOf func(name string) *resourcev1.ResourceClaim) verdict {
	var v verdict
	if pod.Spec.NodeName == "" {
		return v
	}
	podGroups = podGroups && index.GroupOf(pod) != ""
	use := func(name string, generated bool) {
		claim := claimOf(name)
		if claim == nil || generated && resourceclaim.IsForPod(pod, claim, podGroups) != nil ||
			!resourceclaim.IsReservedForPod(pod, claim, podGroups) {
			return
		}
		of := t.of(claim, pod.Spec.NodeName)
		v.earlier(of.due)
		v.reasons = append(v.reasons, of.reasons...)
	}
	for i := range pod.Spec.ResourceClaims {
		name, generated, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err == nil && name != nil { // otherwise it is not generated yet, or none is
			use(*name, generated)
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		use(extended.ResourceClaimName, true)
	}
	return v.ordered()
}
