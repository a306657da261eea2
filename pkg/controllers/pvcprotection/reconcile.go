package pvcprotection

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/protection"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (c *protectionController) reconcile(ctx context.Context, key types.NamespacedName) error {
	claim, found, err := reconcile.Found(c.claims.PersistentVolumeClaims(key.Namespace).Get(key.Name))
	if !found {
		return err
	}
	var waits error // for the cache to show the pods of the claim, which its finalizer does not need
	if c.unusedSince && claim.DeletionTimestamp == nil {
		if claim, err = c.showWhetherUsed(ctx, claim); err != nil {
			waits = fmt.Errorf("showing whether persistent volume claim %s is used: %w", key, err)
		}
		if waits != nil && !reconcile.IsRequeue(waits) {
			return waits
		}
	}
	update := c.Client.CoreV1().PersistentVolumeClaims(key.Namespace).Update
	switch {
	case finalizer.IsMissing(claim):
		if err := protection.Add(ctx, finalizer, claim, update); err != nil {
			return fmt.Errorf("protecting persistent volume claim %s: %w", key, err)
		}
	case finalizer.Blocks(claim):
		used, err := c.isUsed(ctx, claim)
		if err != nil {
			return fmt.Errorf("looking up the pods of persistent volume claim %s: %w", key, err)
		}
		if used {
			return nil
		}
		if err := protection.Remove(ctx, finalizer, claim, update); err != nil {
			return fmt.Errorf("releasing persistent volume claim %s: %w", key, err)
		}
	}
	return waits
}
