package pvexpander

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/volumes/operations"
)

// oldSizeAnnotation on a volume has the capacity that its claim had before the expansion. It marks
// the volume as one that the node has not expanded yet.
const oldSizeAnnotation = "volume.alpha.kubernetes.io/pre-resize-capacity"

func isMarked(volume *corev1.PersistentVolume) bool {
	return metav1.HasAnnotation(volume.ObjectMeta, oldSizeAnnotation)
}

// expandFlex does the next step of the expansion of a FlexVolume, or removes the mark of a volume
// that the node has expanded.
func (c *expander) expandFlex(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) error {
	if isExpanded(claim, volume) {
		_, err := c.patchVolume(ctx, volume, func(v *corev1.PersistentVolume) { delete(v.Annotations, oldSizeAnnotation) })
		return err
	}
	began := c.Clock.Now()
	err := c.carryOut(ctx, planFor(claim, volume), claim, volume)
	operation := operations.Operation{Plugin: volume.Spec.FlexVolume.Driver, Name: "expand_volume"}
	c.operations.Observe(operation, c.Clock.Since(began), err)
	if err != nil {
		c.RecordFailure(ctx, failed(claim, err))
	}
	return err
}

func (c *expander) carryOut(ctx context.Context, p plan, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) error {
	switch p.step {
	case wait:
		return c.mark(ctx, claim, volume)
	case tellNode:
		return c.tellNode(ctx, claim, volume)
	}
	key, driver := reconcile.KeyOf(claim), volume.Spec.FlexVolume.Driver
	claim, err := c.patchClaim(ctx, claim, func(claim *corev1.PersistentVolumeClaim) { begin(claim, driver, p.size, c.now()) })
	if err != nil {
		return fmt.Errorf("error updating pvc %s with resize in progress: %w", key, err)
	}
	volume, err = c.patchVolume(ctx, volume, func(v *corev1.PersistentVolume) { v.Spec.Capacity = withSize(v.Spec.Capacity, p.size) })
	if err != nil {
		return fmt.Errorf("error updating pv for pvc %s: %w", key, err)
	}
	if isBlock(volume) {
		return c.finish(ctx, claim, p.size)
	}
	if err := c.tellNode(ctx, claim, volume); err != nil {
		return fmt.Errorf("error marking pvc %s for node expansion: %w", key, err)
	}
	return nil
}

// finish ends the expansion of a block device, which has no file system that the node would expand.
func (c *expander) finish(ctx context.Context, claim *corev1.PersistentVolumeClaim, size resource.Quantity) error {
	if _, err := c.patchClaim(ctx, claim, func(claim *corev1.PersistentVolumeClaim) { end(claim, size) }); err != nil {
		return fmt.Errorf("error marking pvc %s as resized: %w", reconcile.KeyOf(claim), err)
	}
	c.Record(succeeded(claim))
	return nil
}

// tellNode has the node expand the file system, and marks the volume.
func (c *expander) tellNode(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) error {
	key := reconcile.KeyOf(claim)
	claim, err := c.patchClaim(ctx, claim, func(claim *corev1.PersistentVolumeClaim) { awaitNode(claim, c.now()) })
	if err != nil {
		return fmt.Errorf("error marking pvc %s for node expansion: %w", key, err)
	}
	return c.mark(ctx, claim, volume)
}

// mark marks a volume unless it is marked.
func (c *expander) mark(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) error {
	if isMarked(volume) {
		return nil
	}
	capacity := capacityOf(claim)
	if _, err := c.patchVolume(ctx, volume, func(v *corev1.PersistentVolume) { setMark(v, capacity) }); err != nil {
		return fmt.Errorf("error updating pv %s annotation (%s) with pre-resize capacity %s: %w", volume.Name, oldSizeAnnotation, capacity.String(), err)
	}
	return nil
}

// begin makes a claim one whose volume is being expanded to a size.
func begin(claim *corev1.PersistentVolumeClaim, driver string, size resource.Quantity, now metav1.Time) {
	setResizer(claim, driver)
	setProgress(&claim.Status, corev1.PersistentVolumeClaimControllerResizeInProgress)
	claim.Status.AllocatedResources = withSize(claim.Status.AllocatedResources, size)
	claim.Status.Conditions = only(claim.Status.Conditions, isTrue(corev1.PersistentVolumeClaimResizing, now))
}

// awaitNode makes a claim one whose file system the node has to expand.
func awaitNode(claim *corev1.PersistentVolumeClaim, now metav1.Time) {
	condition := isTrue(corev1.PersistentVolumeClaimFileSystemResizePending, now)
	condition.Message = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."
	setProgress(&claim.Status, corev1.PersistentVolumeClaimNodeResizePending)
	claim.Status.Conditions = with(claim.Status.Conditions, condition)
}

// end makes a claim one that has been expanded to a size.
func end(claim *corev1.PersistentVolumeClaim, size resource.Quantity) {
	status := &claim.Status
	status.Capacity = withSize(status.Capacity, size)
	status.Conditions = withoutResize(status.Conditions)
	delete(status.AllocatedResourceStatuses, corev1.ResourceStorage)
	if len(status.AllocatedResourceStatuses) == 0 {
		status.AllocatedResourceStatuses = nil
	}
}

func setMark(volume *corev1.PersistentVolume, capacity resource.Quantity) {
	metav1.SetMetaDataAnnotation(&volume.ObjectMeta, oldSizeAnnotation, capacity.String())
}

func setProgress(status *corev1.PersistentVolumeClaimStatus, progress corev1.ClaimResourceStatus) {
	if status.AllocatedResourceStatuses == nil {
		status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{}
	}
	status.AllocatedResourceStatuses[corev1.ResourceStorage] = progress
}

func isTrue(condition corev1.PersistentVolumeClaimConditionType, since metav1.Time) corev1.PersistentVolumeClaimCondition {
	return corev1.PersistentVolumeClaimCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: since}
}

func withSize(all corev1.ResourceList, size resource.Quantity) corev1.ResourceList {
	all = maps.Clone(all)
	if all == nil {
		all = corev1.ResourceList{}
	}
	all[corev1.ResourceStorage] = size
	return all
}

func isBlock(volume *corev1.PersistentVolume) bool {
	return volume.Spec.VolumeMode != nil && *volume.Spec.VolumeMode == corev1.PersistentVolumeBlock
}

func (c *expander) now() metav1.Time { return metav1.NewTime(c.Clock.Now()) }
