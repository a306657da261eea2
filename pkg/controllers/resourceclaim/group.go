package resourceclaim

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// reconcileGroup gives each entry of a PodGroup its claim and records the names. The scheduler
// reserves them.
func (c *claimController) reconcileGroup(ctx context.Context, key types.NamespacedName) error {
	group, exists, err := reconcile.Found(c.groups.PodGroups(key.Namespace).Get(key.Name))
	if !exists || group.DeletionTimestamp != nil {
		return err
	}
	if wait := c.memory.unsettled(group.UID); wait > 0 {
		c.queue.AddAfter(keyOf(kindPodGroup, group), wait)
		return nil
	}
	var found []status
	of := c.groupOwner(group)
	for i := range group.Spec.ResourceClaims {
		entry := &group.Spec.ResourceClaims[i]
		name, mustBeOwn, err := resourceclaim.NameFromPodGroup(group, entry)
		has, err := c.hasClaim(ctx, of, known{name, mustBeOwn, err})
		var generated string
		if !has && err == nil && entry.ResourceClaimTemplateName != nil {
			generated, err = c.generate(ctx, of, entry.Name, *entry.ResourceClaimTemplateName)
		}
		if err != nil {
			return c.failed(ctx, err, group, fmt.Sprintf("PodGroup %s", key), "PodGroupResourceClaim", entry.Name)
		}
		if generated != "" {
			found = append(found, status{Name: entry.Name, ResourceClaimName: &generated})
		}
	}
	return c.recordInGroup(ctx, group, found)
}
