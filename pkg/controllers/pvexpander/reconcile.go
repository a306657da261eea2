package pvexpander

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (c *expander) reconcile(ctx context.Context, key types.NamespacedName) error {
	claim, found, err := reconcile.Found(c.claims.PersistentVolumeClaims(key.Namespace).Get(key.Name))
	if !found {
		return err
	}
	if c.needsNothing(claim) {
		return nil
	}
	volume, err := c.Client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("failed to get PV %q: %w", claim.Spec.VolumeName, err)
	}
	if !isBoundTo(volume, claim) {
		return fmt.Errorf("persistent Volume is not bound to PVC being updated : %s", key)
	}
	if !mustGrow(claim) && !isMarked(volume) {
		return nil
	}
	if plugin, err := c.migration.GetInTreePluginNameFromSpec(volume, nil); err == nil {
		return c.passToDriver(ctx, claim, plugin)
	}
	if volume.Spec.FlexVolume != nil {
		return c.expandFlex(ctx, claim, volume)
	}
	c.Record(waitsForResizer(claim))
	return nil
}

// needsNothing reports whether the cache shows that there is nothing to do for a claim. It saves
// reading the volumes of all claims on each start. What the cache shows of a FlexVolume is not
// enough: if its mark was missed, nothing would come back to it.
func (c *expander) needsNothing(claim *corev1.PersistentVolumeClaim) bool {
	if mustGrow(claim) {
		return false
	}
	volume, err := c.volumes.Get(claim.Spec.VolumeName)
	return err == nil && isBoundTo(volume, claim) && volume.Spec.FlexVolume == nil && !isMarked(volume)
}

func isBoundTo(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	ref := volume.Spec.ClaimRef
	return ref != nil && ref.Namespace == claim.Namespace && ref.UID == claim.UID
}
