package pvprotection

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/protection"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (c *protectionController) reconcile(ctx context.Context, name string) error {
	volume, found, err := reconcile.Found(c.volumes.Get(name))
	if !found {
		return err
	}
	update := c.Client.CoreV1().PersistentVolumes().Update
	switch {
	case finalizer.IsMissing(volume):
		if err := protection.Add(ctx, finalizer, volume, update); err != nil {
			return fmt.Errorf("protecting persistent volume %s: %w", name, err)
		}
	case finalizer.Blocks(volume) && volume.Status.Phase != corev1.VolumeBound:
		if err := protection.Remove(ctx, finalizer, volume, update); err != nil {
			return fmt.Errorf("releasing persistent volume %s: %w", name, err)
		}
	}
	return nil
}
