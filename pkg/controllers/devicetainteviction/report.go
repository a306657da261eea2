package devicetainteviction

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applyresourcev1beta2 "k8s.io/client-go/applyconfigurations/resource/v1beta2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// reportPeriod is the minimum time between two status updates of a rule whose spec has not changed.
const reportPeriod = 10 * time.Second

// reportOn applies the status of a rule if it has changed, at most once per reportPeriod.
func (c *evictionController) reportOn(ctx context.Context, key item) error {
	rule, found, err := reconcile.Found(c.rules.Get(key.Name))
	if !found || rule.UID != key.uid {
		return err
	}
	now := c.Clock.Now()
	shown := shownCondition(rule)
	if isCurrent(shown, rule) {
		// A time in the future is that of a clock that was ahead. Waiting for it could take hours.
		if ago := now.Sub(shown.LastTransitionTime.Time); ago >= 0 && ago < reportPeriod {
			c.queue.AddAfter(key, reportPeriod-ago)
			return nil
		}
	}
	counted, err := c.count(rule)
	if err != nil {
		return err
	}
	condition := conditionFor(rule, counted)
	condition.LastTransitionTime = metav1.NewTime(now)
	if shown != nil && same(*shown, condition) {
		return nil
	}
	if err := c.apply(ctx, rule, condition); err != nil {
		return fmt.Errorf("applying the status of DeviceTaintRule %s: %w", rule.Name, err)
	}
	return nil
}

// statusChanged enqueues a rule that evicts pods when the cache shows another status of it. An update may have been
// skipped because the cache showed an older status, which was right again by then.
func (c *evictionController) statusChanged(rule *resourcev1beta2.DeviceTaintRule) {
	if rule.Spec.Taint.Effect == resourcev1beta2.DeviceTaintEffectNoExecute {
		c.queue.AddAfter(keyOf(rule.Name, rule.UID), reportPeriod)
	}
}

// shownCondition returns the condition in the status of a rule, nil if it has none.
func shownCondition(rule *resourcev1beta2.DeviceTaintRule) *metav1.Condition {
	return meta.FindStatusCondition(rule.Status.Conditions, resourcev1beta2.DeviceTaintConditionEvictionInProgress)
}

// isCurrent reports whether a condition exists and is for the current generation of a rule.
func isCurrent(condition *metav1.Condition, rule *resourcev1beta2.DeviceTaintRule) bool {
	return condition != nil && condition.ObservedGeneration == rule.Generation
}

// same reports whether two conditions are equal except for the transition time.
func same(a, b metav1.Condition) bool {
	a.LastTransitionTime = b.LastTransitionTime
	return a == b
}

func (c *evictionController) apply(
	ctx context.Context, rule *resourcev1beta2.DeviceTaintRule, condition metav1.Condition,
) error {
	status := applyresourcev1beta2.DeviceTaintRuleStatus().WithConditions(applymetav1.Condition().
		WithType(condition.Type).
		WithStatus(condition.Status).
		WithReason(condition.Reason).
		WithMessage(condition.Message).
		WithObservedGeneration(condition.ObservedGeneration).
		WithLastTransitionTime(condition.LastTransitionTime))
	is := applyresourcev1beta2.DeviceTaintRule(rule.Name).WithUID(rule.UID).WithStatus(status)
	options := metav1.ApplyOptions{FieldManager: controllerName, Force: true}
	_, err := c.Client.ResourceV1beta2().DeviceTaintRules().ApplyStatus(ctx, is, options)
	return err
}

// count computes the numbers for the status of a rule, depending on its effect. It holds the lock only
// while it copies shared state.
func (c *evictionController) count(rule *resourcev1beta2.DeviceTaintRule) (counts, error) {
	switch rule.Spec.Taint.Effect {
	case resourcev1beta2.DeviceTaintEffectNoExecute:
		return c.countPending(rule), nil
	case resourcev1beta2.DeviceTaintEffectNone:
		return c.simulate(rule)
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		return counts{evicted: c.counts[rule.UID]}, nil
	}
}

// countPending counts the pods with pending evictions because of a rule. It ignores pods that are already
// being deleted, and other pods of the same name.
func (c *evictionController) countPending(rule *resourcev1beta2.DeviceTaintRule) counts {
	c.mu.Lock()
	pending, evicted := c.appointments.because(rule.UID), c.counts[rule.UID]
	c.mu.Unlock()
	counted := counts{evicted: evicted}
	namespaces := map[string]bool{}
	for _, key := range pending {
		pod, err := c.pods.Pods(key.Namespace).Get(key.Name)
		if err != nil || pod.UID != key.uid || pod.DeletionTimestamp != nil {
			continue
		}
		counted.pods++
		namespaces[key.Namespace] = true
	}
	counted.namespaces = len(namespaces)
	return counted
}

// simulate counts the effects that a rule would have as a NoExecute rule. It ignores all other rules.
func (c *evictionController) simulate(rule *resourcev1beta2.DeviceTaintRule) (counts, error) {
	c.mu.Lock()
	by := taints{pools: maps.Clone(c.taints.pools), rules: map[string]*resourcev1beta2.DeviceTaintRule{rule.Name: rule}}
	counted := counts{evicted: c.counts[rule.UID]}
	c.mu.Unlock()
	published, err := c.slicesOf(rule)
	if err != nil {
		return counts{}, err
	}
	counted.published = countPublished(rule, published)
	claims := c.selectedBy(rule)
	users := map[types.NamespacedName]bool{}
	for _, claim := range claims {
		counted.allocated += countAllocated(rule, claim)
		c.usersOf(claim.Namespace, claim.Status.ReservedFor, func(user types.NamespacedName) { users[user] = true })
	}
	namespaces := map[string]bool{}
	for key := range users {
		pod, err := c.pods.Pods(key.Namespace).Get(key.Name)
		if err != nil {
			continue
		}
		if is := c.verdictOn(by, pod); slices.Contains(is.reasons, reason{rule: rule.Name, uid: rule.UID}) {
			counted.pods++
			namespaces[key.Namespace] = true
		}
	}
	counted.namespaces = len(namespaces)
	return counted, nil
}

// countAllocated counts the devices that a rule selects and that are allocated to a claim, which may have no
// allocation.
func countAllocated(rule *resourcev1beta2.DeviceTaintRule, claim *resourcev1.ResourceClaim) int {
	if claim.Status.Allocation == nil {
		return 0
	}
	count := 0
	for i := range claim.Status.Allocation.Devices.Results {
		if result := &claim.Status.Allocation.Devices.Results[i]; selects(rule, result.Driver, result.Pool, result.Device) {
			count++
		}
	}
	return count
}

// countPublished counts the devices that a rule selects in the highest generation of their pools, which each node may
// see differently.
func countPublished(rule *resourcev1beta2.DeviceTaintRule, published []*resourcev1.ResourceSlice) int {
	pools := map[poolKey][]*resourcev1.ResourceSlice{}
	for _, slice := range published {
		pools[poolOf(slice)] = append(pools[poolOf(slice)], slice)
	}
	count := 0
	for key, pool := range pools {
		for _, counting := range byNode(pool) { // those of no node once
			for _, slice := range counting {
				count += countSelected(rule, key, slice)
			}
		}
	}
	return count
}

// countSelected counts the devices of a slice that a rule selects.
func countSelected(rule *resourcev1beta2.DeviceTaintRule, of poolKey, slice *resourcev1.ResourceSlice) int {
	count := 0
	for i := range slice.Spec.Devices {
		if selects(rule, of.driver, of.pool, slice.Spec.Devices[i].Name) {
			count++
		}
	}
	return count
}
