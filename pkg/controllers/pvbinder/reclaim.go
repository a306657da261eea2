package pvbinder

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	volumeerrors "k8s.io/cloud-provider/volume/errors"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/volumes"
)

// reclaim does what the policy of a released volume says.
func (c *binderController) reclaim(ctx context.Context, v *corev1.PersistentVolume) error {
	if v.Annotations[volume.AnnMigratedTo] != "" {
		return nil // the CSI driver reclaims it
	}
	switch v.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRetain:
		return nil
	case corev1.PersistentVolumeReclaimDelete:
		if c.timings.begin(operationDelete, v.UID, c.deleterName(v)); c.hasGone(v) {
			c.timings.drop(operationDelete, v.UID)
			return nil
		}
		c.operations.start(fmt.Sprintf("delete-%s[%s]", v.Name, v.UID), func(_, working context.Context) error {
			err := c.deleteVolume(working, v)
			if err != nil {
				c.timings.fail(operationDelete, v.UID)
			}
			return err
		})
		return nil
	case corev1.PersistentVolumeReclaimRecycle:
		c.operations.start(recycleName(v.Name, v.UID), func(stopping, working context.Context) error {
			c.recycleVolume(stopping, working, v)
			return nil
		})
		return nil
	default:
		_, err := c.setPhase(ctx, v, corev1.VolumeFailed, unknownPolicy(v))
		return err
	}
}

// isRecycled reports whether this controller empties a volume when it is released.
func isRecycled(v *corev1.PersistentVolume) bool {
	return v.Annotations[volume.AnnMigratedTo] == "" &&
		v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle
}

func recycleName(volume string, uid types.UID) string {
	return fmt.Sprintf("recycle-%s[%s]", volume, uid)
}

// deleterName returns who deletes a volume, for metrics.
func (c *binderController) deleterName(v *corev1.PersistentVolume) string {
	if internal, err := c.plugins.deleterFor(v); err == nil && internal != nil {
		return internal.Name()
	}
	class, err := c.classes.Get(volume.GetPersistentVolumeClass(v))
	if err != nil {
		return volumes.UnknownPlugin
	}
	if driver := migratedTo(class.Provisioner); driver != "" {
		return driver
	}
	return class.Provisioner
}

// deleteVolume deletes a volume and its storage, unless an external provisioner does.
func (c *binderController) deleteVolume(ctx context.Context, v *corev1.PersistentVolume) error {
	internal, err := c.plugins.deleterFor(v)
	if err != nil {
		_, err = c.setPhase(ctx, v, corev1.VolumeFailed, deletionFailed(v, err.Error()))
		return err
	}
	if internal == nil {
		return nil
	}
	live, err := c.liveReleased(ctx, v)
	if err != nil || live == nil {
		klog.FromContext(ctx).V(3).Info("A volume is not deleted now", "volume", v.Name, "err", err)
		return nil // the next pass decides again
	}
	began := c.Clock.Now()
	err = internal.Delete(ctx, live)
	c.observePlugin(internal, "volume_delete", began, err)
	if err == nil {
		live, err = c.unprotect(ctx, live)
	}
	if volumeerrors.IsDeletedVolumeInUse(err) {
		c.recordAll(deletionDelayed(live, err.Error()))
		return err
	}
	if err != nil {
		_, failed := c.setPhase(ctx, live, corev1.VolumeFailed, deletionFailed(live, err.Error()))
		return errors.Join(err, failed)
	}
	c.deleteObject(ctx, live)
	return nil
}

// liveReleased reads a volume, and its claim, live: what follows destroys data. It returns nil unless the
// volume is still the one that was to be reclaimed, and released.
func (c *binderController) liveReleased(
	ctx context.Context, v *corev1.PersistentVolume,
) (*corev1.PersistentVolume, error) {
	live, err := c.Client.CoreV1().PersistentVolumes().Get(ctx, v.Name, metav1.GetOptions{})
	switch {
	case controller.Absent(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading volume %s: %w", v.Name, err)
	case live.UID != v.UID,
		!isReclaimable(live, v.Spec.PersistentVolumeReclaimPolicy),
		!isReleased(live, c.claims.get(claimKeyOf(live))):
		return nil, nil
	}
	claim, err := c.liveClaim(ctx, live.Spec.ClaimRef)
	if err != nil || !isReleased(live, claim) {
		return nil, err
	}
	return live, nil
}

// isReclaimable reports whether a volume has a claimRef and still the policy that was to be carried out.
func isReclaimable(v *corev1.PersistentVolume, policy corev1.PersistentVolumeReclaimPolicy) bool {
	return v.Spec.ClaimRef != nil && v.Spec.PersistentVolumeReclaimPolicy == policy
}

// unprotect removes the finalizer of this controller from a volume whose storage has been deleted. It
// returns the volume that was sent if that fails.
func (c *binderController) unprotect(
	ctx context.Context, v *corev1.PersistentVolume,
) (*corev1.PersistentVolume, error) {
	live, err := c.Client.CoreV1().PersistentVolumes().Get(ctx, v.Name, metav1.GetOptions{})
	if err != nil {
		return v, fmt.Errorf("persistent volume controller can't update finalizer: %w", err)
	}
	if live.UID != v.UID {
		return v, fmt.Errorf("persistent volume controller can't update finalizer: volume %s was replaced", v.Name)
	}
	finalizers, protected := without(live.Finalizers, volume.PVDeletionInTreeProtectionFinalizer)
	if !protected {
		return live, nil
	}
	changed := live.DeepCopy()
	changed.Finalizers = slices.Clip(finalizers)
	written, err := c.updateVolume(ctx, changed)
	if err != nil {
		return live, fmt.Errorf("persistent volume controller can't update finalizer: %w", err)
	}
	return written, nil
}

// deleteObject deletes the object of a volume whose storage has been deleted, if it has not changed since
// it was read. A failure is repeated by the next pass.
func (c *binderController) deleteObject(ctx context.Context, v *corev1.PersistentVolume) {
	err := c.Client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: ptr.To(v.UID), ResourceVersion: ptr.To(v.ResourceVersion)},
	})
	if err != nil {
		logFailure(ctx, err, "Failed to delete the PersistentVolume, retrying in the next pass", v)
	}
}
