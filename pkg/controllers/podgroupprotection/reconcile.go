package podgroupprotection

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/protection"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (c *protectionController) reconcile(ctx context.Context, key types.NamespacedName) error {
	group, found, err := reconcile.Found(c.groups.PodGroups(key.Namespace).Get(key.Name))
	if !found || !finalizer.Blocks(group) {
		return err
	}
	held, err := c.isHeld(ctx, group)
	if err != nil {
		return fmt.Errorf("looking up the pods of pod group %s: %w", key, err)
	}
	if held {
		return nil
	}
	update := c.Client.SchedulingV1alpha2().PodGroups(key.Namespace).Update
	if err := protection.Remove(ctx, finalizer, group, update); err != nil {
		return fmt.Errorf("releasing pod group %s: %w", key, err)
	}
	return nil
}
