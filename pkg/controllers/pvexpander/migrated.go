package pvexpander

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// resizerAnnotation on a claim names the CSI driver whose resizer expands the volume.
const resizerAnnotation = "volume.kubernetes.io/storage-resizer"

// passToDriver has the resizer of a CSI driver expand a volume of the in-tree plugin that the driver
// replaces.
func (c *expander) passToDriver(ctx context.Context, claim *corev1.PersistentVolumeClaim, plugin string) error {
	c.Record(waitsForDriver(claim, plugin))
	err := c.nameDriver(ctx, claim, plugin)
	if err != nil {
		c.RecordFailure(ctx, notPassedToDriver(claim, err))
	}
	return err
}

func (c *expander) nameDriver(ctx context.Context, claim *corev1.PersistentVolumeClaim, plugin string) error {
	key := reconcile.KeyOf(claim)
	driver, err := c.migration.GetCSINameFromInTreeName(plugin)
	if err != nil {
		return fmt.Errorf("error getting CSI driver name for pvc %s, with error %w", key, err)
	}
	if claim.Annotations[resizerAnnotation] == driver {
		return nil
	}
	if _, err := c.patchClaim(ctx, claim, func(claim *corev1.PersistentVolumeClaim) { setResizer(claim, driver) }); err != nil {
		return fmt.Errorf("error setting resizer annotation to pvc %s, with error %w", key, err)
	}
	return nil
}

func setResizer(claim *corev1.PersistentVolumeClaim, name string) {
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[resizerAnnotation] = name
}
