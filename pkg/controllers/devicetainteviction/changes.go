package devicetainteviction

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// podUpdated judges a pod that has changed. One that was restored can be evicted again.
func (c *evictionController) podUpdated(old, pod *corev1.Pod) {
	if pods.IsRestored(old, pod) {
		c.mu.Lock()
		delete(c.evicted, reconcile.KeyOf(pod))
		c.mu.Unlock()
	}
	c.podChanged(pod)
}

// podChanged judges a pod that uses claims, or that replaces one of its name that did.
func (c *evictionController) podChanged(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := reconcile.KeyOf(pod)
	c.forgetEvicted(key)
	if c.nothingMatters() {
		return
	}
	c.judge(key)
}

// claimChanged judges the pods for which a claim is reserved when the claim is added or deleted.
func (c *evictionController) claimChanged(claim *resourcev1.ResourceClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nothingMatters() {
		return
	}
	c.judgeUsers([]*resourcev1.ResourceClaim{claim})
}

// claimUpdated judges the pods that an update of a claim affects. If the claim keeps its allocation, the update does
// not affect pods that keep their reservation.
func (c *evictionController) claimUpdated(old, claim *resourcev1.ResourceClaim) {
	before, after := old.Status.ReservedFor, claim.Status.ReservedFor
	switch {
	case old.Status.Allocation == nil && claim.Status.Allocation == nil:
		return
	case sameAllocation(old, claim):
		before, after = without(before, after), without(after, before)
	}
	if len(before)+len(after) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nothingMatters() {
		return
	}
	c.usersOf(old.Namespace, before, c.judge)
	c.usersOf(claim.Namespace, after, c.judge)
}

// sameAllocation reports whether two states belong to the same claim, with the same allocation and the
// same owner. A claim cannot be allocated otherwise before it is deallocated, but a watch that was interrupted may not
// show that.
func sameAllocation(old, claim *resourcev1.ResourceClaim) bool {
	return old.UID == claim.UID && equality.Semantic.DeepEqual(old.Status.Allocation, claim.Status.Allocation) &&
		equality.Semantic.DeepEqual(old.OwnerReferences, claim.OwnerReferences)
}

// without returns the consumers that are not in others. Usually both lists are equal.
func without(
	consumers, others []resourcev1.ResourceClaimConsumerReference,
) (left []resourcev1.ResourceClaimConsumerReference) {
	if slices.Equal(consumers, others) {
		return nil
	}
	for _, consumer := range consumers {
		if !slices.Contains(others, consumer) {
			left = append(left, consumer)
		}
	}
	return left
}

// nothingMatters reports whether there is nothing to judge: judging has not begun, or no device has a
// taint and there is no pending eviction to cancel. The caller holds the lock.
func (c *evictionController) nothingMatters() bool {
	return !c.begun || c.taints.none() && len(c.appointments.all) == 0
}

// poolChanged updates the taints of a pool and judges the pods that use devices whose taints changed.
func (c *evictionController) poolChanged(key poolKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.begun {
		return
	}
	before := c.taints.pools[key]
	after := c.taintsIn(key)
	if len(after) == 0 {
		delete(c.taints.pools, key)
	} else {
		c.taints.pools[key] = after
	}
	for _, device := range before.differing(after) {
		c.judgeUsers(c.claimsBy(index.Device(key.driver, key.pool, device)))
	}
}

// taintsIn finds the taints of a pool. If no slice of any generation has a taint, it does not list the
// slices.
func (c *evictionController) taintsIn(key poolKey) taintedPool {
	name := index.Pool(key.driver, key.pool)
	if names, err := c.slices.IndexKeys(taintedIndex, name); err != nil || len(names) == 0 {
		return nil
	}
	pool, err := index.Append[*resourcev1.ResourceSlice](nil, c.slices, index.SlicesByPool, name)
	if err != nil {
		return nil // without the index the controller was not built
	}
	return taintedIn(pool)
}

// ruleChanged applies the cached state of a rule and judges the pods that use devices selected by its old
// or new state. A different UID means that another rule of the same name has replaced the old one.
func (c *evictionController) ruleChanged(old, rule *resourcev1beta2.DeviceTaintRule) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.begun {
		return
	}
	name := ""
	if rule != nil {
		name = rule.Name
		c.queue.Add(keyOf(rule.Name, rule.UID))
	}
	if old != nil {
		name = old.Name
		if rule == nil || rule.UID != old.UID {
			delete(c.counts, old.UID)
		}
	}
	before := c.taints.rules[name]
	after, found, err := reconcile.Found(c.rules.Get(name))
	switch {
	case err != nil:
		return // no lister returns another error
	case found && after.Spec.Taint.Effect == resourcev1beta2.DeviceTaintEffectNoExecute:
		c.taints.rules[name] = after
	default:
		delete(c.taints.rules, name)
	}
	if before != nil {
		c.judgeUsers(c.selectedBy(before))
	}
	if after := c.taints.rules[name]; after != nil {
		c.judgeUsers(c.selectedBy(after))
	}
}

// keyOf returns the queue key of a rule.
func keyOf(name string, uid types.UID) item {
	return item{NamespacedName: types.NamespacedName{Name: name}, uid: uid, rule: true}
}
