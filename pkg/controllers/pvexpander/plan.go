package pvexpander

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// step is what is next in the expansion of a FlexVolume.
type step int

const (
	// wait leaves it to the node, which has been told. If the pass that told it was interrupted, the
	// volume is still to be marked.
	wait step = iota
	// expand makes the volume larger and then tells the node.
	expand
	// tellNode only tells the node, since the volume is large enough.
	tellNode
)

// plan is the next step, and for expand the size.
type plan struct {
	step step
	size resource.Quantity
}

// isExpanded reports whether a claim has what it requests and all that its volume has. Both count: a
// request can be lowered again while the volume grows.
func isExpanded(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	return !mustGrow(claim) && !grew(capacityOf(claim), sizeOf(volume))
}

// planFor decides what is next for a claim of a FlexVolume. An expansion that has begun goes on with
// the size it began with.
func planFor(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) plan {
	status := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	if grew(sizeOf(volume), requested(claim)) {
		switch status {
		case corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimNodeResizePending,
			corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible:
			return expandTo(begunSize(claim), volume)
		}
		return plan{expand, requested(claim)}
	}
	switch status {
	case corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress:
		return plan{step: wait}
	case corev1.PersistentVolumeClaimNodeResizeInfeasible:
		return plan{step: tellNode}
	case "", corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible:
		return expandTo(begunSize(claim), volume)
	}
	return expandTo(requested(claim), volume)
}

// expandTo expands a volume to a size, unless it is larger already. A volume that another claim had before may be, if
// the node has not expanded it for that claim.
func expandTo(size resource.Quantity, volume *corev1.PersistentVolume) plan {
	if is := sizeOf(volume); grew(size, is) {
		size = is
	}
	return plan{expand, size}
}

// begunSize returns the size with which an expansion began, or what is requested if none has.
func begunSize(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	if size, ok := claim.Status.AllocatedResources[corev1.ResourceStorage]; ok {
		return size
	}
	return requested(claim)
}
