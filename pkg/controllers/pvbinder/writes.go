package pvbinder

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
)

// Every write of a volume or a claim is an update of the whole object that the decision was based on,
// with its UID and resource version. If that has changed, or another object has its name, the API
// server rejects the update.

// updateVolume writes a volume, without its status.
func (c *binderController) updateVolume(
	ctx context.Context, v *corev1.PersistentVolume,
) (*corev1.PersistentVolume, error) {
	written, err := c.Client.CoreV1().PersistentVolumes().Update(ctx, v, metav1.UpdateOptions{})
	return answered(c.volumes.store, v, written, err)
}

// updateClaim writes a claim, without its status.
func (c *binderController) updateClaim(
	ctx context.Context, claim *corev1.PersistentVolumeClaim,
) (*corev1.PersistentVolumeClaim, error) {
	written, err := c.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	return answered(c.claims, claim, written, err)
}

// updateClaimStatus writes the status of a claim.
func (c *binderController) updateClaimStatus(
	ctx context.Context, claim *corev1.PersistentVolumeClaim,
) (*corev1.PersistentVolumeClaim, error) {
	claims := c.Client.CoreV1().PersistentVolumeClaims(claim.Namespace)
	written, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return answered(c.claims, claim, written, err)
}

// answered stores what an update returned.
func answered[T object](in *store[T], sent, written T, err error) (T, error) {
	if err != nil {
		in.refused(keyOf(sent), sent, err)
		return sent, err
	}
	in.wrote(keyOf(sent), written)
	return written, nil
}

// setPhase writes the phase of a volume unless it has the phase already. The event, if any, is recorded
// if the phase changes.
func (c *binderController) setPhase(
	ctx context.Context, v *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, e *controller.Event,
) (*corev1.PersistentVolume, error) {
	if v.Status.Phase == phase {
		return v, nil
	}
	changed := v.DeepCopy()
	changed.Status.Phase, changed.Status.Message = phase, ""
	if e != nil {
		changed.Status.Message = e.Message
	}
	written, err := c.Client.CoreV1().PersistentVolumes().UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	written, err = answered(c.volumes.store, changed, written, err)
	if err != nil {
		return v, fmt.Errorf("updating the phase of volume %s to %s: %w", v.Name, phase, err)
	}
	c.recordAll(e)
	return written, nil
}

// setClaimPhase writes a phase other than Bound of a claim unless it has the phase already. The event,
// if any, is recorded if the phase changes.
func (c *binderController) setClaimPhase(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase, e *controller.Event,
) error {
	changed := unboundStatus(claim, phase)
	if changed == nil {
		return nil
	}
	if _, err := c.updateClaimStatus(ctx, changed); err != nil {
		return fmt.Errorf("updating the phase of claim %s to %s: %w", keyOf(claim), phase, err)
	}
	if claim.Status.Phase != phase {
		c.recordAll(e)
	}
	return nil
}

// bind binds a claim and a volume to each other: the spec and the status of the volume, and then the
// spec and the status of the claim. Each step is skipped if it has been done. If one fails, the next
// attempt continues there.
func (c *binderController) bind(
	ctx context.Context, v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim,
) error {
	failed := func(step string, err error) error {
		return fmt.Errorf("binding claim %s to volume %s: updating %s: %w", keyOf(claim), v.Name, step, err)
	}
	v, err := c.reserve(ctx, v, claim)
	if err != nil {
		return err
	}
	if v, err = c.setPhase(ctx, v, corev1.VolumeBound, nil); err != nil {
		return err
	}
	if naming := boundClaim(claim, v); naming != nil {
		if claim, err = c.updateClaim(ctx, naming); err != nil {
			return failed("the claim", err)
		}
	}
	status, err := boundStatus(claim, v, c.vac)
	if err == nil && status != nil {
		_, err = c.updateClaimStatus(ctx, status)
	}
	if err != nil {
		return failed("the status of the claim", err)
	}
	return nil
}

// reserve makes the claimRef of a volume refer to the claim.
func (c *binderController) reserve(
	ctx context.Context, v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim,
) (*corev1.PersistentVolume, error) {
	reserved, changed, err := volume.GetBindVolumeToClaim(v, claim)
	if err == nil && changed {
		reserved, err = c.updateVolume(ctx, reserved)
	}
	if err != nil {
		return v, fmt.Errorf("binding claim %s to volume %s: updating the volume: %w", keyOf(claim), v.Name, err)
	}
	return reserved, nil
}

// logFailure logs why a volume was not written; the next pass tries again. A volume that has changed or is gone
// is no failure.
func logFailure(ctx context.Context, err error, message string, v *corev1.PersistentVolume) {
	logger := klog.FromContext(ctx)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		logger.V(3).Info(message, "volume", v.Name, "err", err)
		return
	}
	logger.Error(err, message, "volume", v.Name)
}

// recordAll records the events that are not nil.
func (c *binderController) recordAll(events ...*controller.Event) {
	for _, e := range events {
		if e != nil {
			c.Record(*e)
		}
	}
}
