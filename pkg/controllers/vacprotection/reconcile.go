package vacprotection

import (
	"context"
	"fmt"

	"kcmd.dev/pkg/controllers/kit/protection"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (c *protectionController) reconcile(ctx context.Context, name string) error {
	class, found, err := reconcile.Found(c.classes.Get(name))
	if !found {
		return err
	}
	update := c.Client.StorageV1().VolumeAttributesClasses().Update
	switch {
	case finalizer.IsMissing(class):
		if err := protection.Add(ctx, finalizer, class, update); err != nil {
			return fmt.Errorf("protecting volume attributes class %s: %w", name, err)
		}
	case finalizer.Blocks(class):
		used, err := c.isUsed(name)
		if err != nil {
			return fmt.Errorf("looking up what refers to volume attributes class %s: %w", name, err)
		}
		if used {
			return nil
		}
		if err := protection.Remove(ctx, finalizer, class, update); err != nil {
			return fmt.Errorf("releasing volume attributes class %s: %w", name, err)
		}
	}
	return nil
}

// isUsed reports whether a volume or a claim refers to a class.
func (c *protectionController) isUsed(name string) (bool, error) {
	volumes, err := c.volumes.IndexKeys(classIndex, name)
	if err != nil || len(volumes) > 0 {
		return true, err
	}
	claims, err := c.claims.IndexKeys(classIndex, name)
	return err != nil || len(claims) > 0, err
}
