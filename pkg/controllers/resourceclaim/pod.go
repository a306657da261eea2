package resourceclaim

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// reconcilePod gives each entry of a pod its claim, records the names, and reserves the claims if
// the pod was bound to a node without a scheduler.
func (c *claimController) reconcilePod(ctx context.Context, key types.NamespacedName) error {
	pod, exists, err := reconcile.Found(c.pods.Pods(key.Namespace).Get(key.Name))
	if !exists || pod.DeletionTimestamp != nil || isDone(pod) {
		return err
	}
	if wait := c.memory.unsettled(pod.UID); wait > 0 {
		c.queue.AddAfter(keyOf(kindPod, pod), wait)
		return nil
	}
	group, err := c.groupOf(pod)
	if err != nil {
		return fmt.Errorf("get PodGroup for Pod %s: %w", key, err)
	}
	var found []status
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		name, err := c.claimForPod(ctx, pod, group, entry)
		if err != nil {
			return c.failed(ctx, err, pod, fmt.Sprintf("pod %s", key), "PodResourceClaim", entry.Name)
		}
		if name != "" {
			found = append(found, status{Name: entry.Name, ResourceClaimName: &name})
		}
	}
	statuses, err := c.recordInPod(ctx, pod, found)
	if err != nil || pod.Spec.NodeName == "" {
		return err
	}
	recorded := *pod // its status may be newer than the cache
	recorded.Status.ResourceClaimStatuses = statuses
	return c.reserve(ctx, &recorded, group)
}

// failed wraps the error of an entry, and records an event about it.
func (c *claimController) failed(ctx context.Context, err error, of runtime.Object, owner, kind, entry string) error {
	c.RecordFailure(ctx, claimFailed(of, kind, entry, err))
	return fmt.Errorf("%s, %s %s: %w", owner, kind, entry, err)
}

// groupOf returns the PodGroup of a pod, nil if it has none or if PodGroups have no claims.
func (c *claimController) groupOf(pod *corev1.Pod) (*schedulingv1alpha2.PodGroup, error) {
	if !c.podGroups || index.GroupOf(pod) == "" {
		return nil, nil
	}
	return c.groups.PodGroups(pod.Namespace).Get(index.GroupOf(pod))
}

// claimForPod ensures that an entry has its claim. It returns the name to be recorded, empty if
// there is nothing to record.
func (c *claimController) claimForPod(ctx context.Context, pod *corev1.Pod, group *schedulingv1alpha2.PodGroup, entry *corev1.PodResourceClaim) (string, error) {
	name, mustBeOwn, err := resourceclaim.Name(pod, entry)
	of := c.podOwner(pod)
	if has, err := c.hasClaim(ctx, of, known{name, mustBeOwn, err}); has || err != nil || entry.ResourceClaimTemplateName == nil {
		return "", err
	}
	consumer, err := resourceclaim.BindTo(pod, group, entry)
	if err != nil {
		return "", err
	}
	if consumer.Resource == "podgroups" { // it is generated for the group
		claim, err := c.claimOf(c.groupOwner(group), entry.Name)
		if claim == nil {
			return "", err
		}
		return claim.Name, nil
	}
	return c.generate(ctx, of, entry.Name, *entry.ResourceClaimTemplateName)
}

// reserve reserves the claims of a pod that are allocated. It ends at the first that the cache does
// not show: its arrival queues the pod again.
func (c *claimController) reserve(ctx context.Context, pod *corev1.Pod, group *schedulingv1alpha2.PodGroup) error {
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		name, mustBeOwn, err := resourceclaim.Name(pod, entry)
		if err != nil {
			return err
		}
		if name == nil {
			continue
		}
		claim, found, err := reconcile.Found(c.claims.ResourceClaims(pod.Namespace).Get(*name))
		if err != nil {
			return fmt.Errorf("retrieve claim: %w", err)
		}
		if !found {
			return nil
		}
		if mustBeOwn {
			if err := c.isForPod(pod, claim); err != nil {
				return err
			}
		}
		if !c.isToReserve(pod, claim) {
			continue
		}
		consumer, err := resourceclaim.BindTo(pod, group, entry)
		if err != nil {
			return err
		}
		if err := c.reserveClaim(ctx, pod, claim, consumer); err != nil {
			return stale(err, fmt.Sprintf("reserve claim %s/%s", claim.Namespace, claim.Name))
		}
	}
	return nil
}

// reserveClaim reserves a claim for one more consumer. Pods that share a claim are often created
// together; they take turns, since all but one of the writes would be conflicts. The claim is read again
// when it is the turn of this pod: the cache may show the writes of those before, which are then no longer
// remembered.
func (c *claimController) reserveClaim(ctx context.Context, pod *corev1.Pod, claim *resourcev1.ResourceClaim, consumer consumer) error {
	defer c.memory.turns.wait(claim.UID)()
	cached, found, err := reconcile.Found(c.claims.ResourceClaims(claim.Namespace).Get(claim.Name))
	if !found || cached.UID != claim.UID { // the event queues the pod again
		return err
	}
	if claim = c.memory.written.Newest(cached, cached); !c.isToReserve(pod, claim) {
		return nil
	}
	_, err = c.putStatus(ctx, withConsumer(claim, consumer))
	return err
}

// withConsumer is a claim with one more consumer.
func withConsumer(claim *resourcev1.ResourceClaim, consumer consumer) *resourcev1.ResourceClaim {
	claim = claim.DeepCopy()
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer)
	return claim
}
