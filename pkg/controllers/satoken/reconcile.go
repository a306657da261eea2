package satoken

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
)

func (c *tokenController) reconcile(ctx context.Context, k key) error {
	if !k.valid() {
		klog.FromContext(ctx).Error(nil, "Dropping a key that names no account or Secret", "key", k)
		return nil
	}
	switch k.kind {
	case accountKind:
		return c.reconcileAccount(ctx, k)
	case secretKind:
		return c.reconcileSecret(ctx, k)
	default:
		return fmt.Errorf("reconciling %v: unknown kind of key", k)
	}
}
