package resourceclaim

import "context"

// reconcile reconciles what a key names.
func (c *claimController) reconcile(ctx context.Context, key key) error {
	switch key.kind {
	case kindPod:
		return c.reconcilePod(ctx, key.NamespacedName)
	case kindPodGroup:
		return c.reconcileGroup(ctx, key.NamespacedName)
	default:
		return c.reconcileClaim(ctx, key)
	}
}
