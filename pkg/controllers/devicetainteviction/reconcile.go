package devicetainteviction

import "context"

// reconcile reports on a rule, or evicts a pod.
func (c *evictionController) reconcile(ctx context.Context, key item) error {
	if key.rule {
		return c.reportOn(ctx, key)
	}
	return c.evict(ctx, key)
}
