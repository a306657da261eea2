package attachdetach

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nodeutil "k8s.io/component-helpers/node/util"
)

// maxWait is how long a volume waits to be unmounted from a node that is not healthy.
const maxWait = 6 * time.Minute

// condition is what a detach depends on in a node.
type condition struct {
	healthy bool
	// outOfService reports whether an administrator vouches that the node is shut down.
	outOfService bool
}

// conditionOf judges a node, which is nil if there is none.
func conditionOf(n *corev1.Node) condition {
	if n == nil {
		return condition{}
	}
	_, ready := nodeutil.GetNodeCondition(&n.Status, corev1.NodeReady)
	return condition{
		healthy: ready != nil && ready.Status == corev1.ConditionTrue,
		outOfService: slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == corev1.TaintNodeOutOfService
		}),
	}
}

// forced is why a volume is detached although its node has not released it.
type forced string

const (
	notForced      forced = ""
	byTimeout      forced = "timeout"
	byOutOfService forced = "out-of-service"
)

// detachVerdict is what becomes of an attachment that nobody wants.
type detachVerdict struct {
	detach bool
	why    forced
	// again is when it has to be judged again if nothing else happens; 0 if never.
	again time.Duration
}

// mayBeMounted reports whether a volume may be mounted on a node, which is nil if there is none. assumed is what
// the node reported last, or what is assumed until it reports something. pending is set if the attachment is
// uncertain, and there is a VolumeAttachment to delete. Then the cached status of a node that is healthy and managed
// decides: its kubelet names what it is going to mount first, and mounts nothing that is not reported as attached. A
// kubelet that attaches volumes itself does neither. The detach confirms the answer by a live read.
func mayBeMounted(n *corev1.Node, volume corev1.UniqueVolumeName, assumed, pending bool) bool {
	if !pending || !conditionOf(n).healthy || !metav1.HasAnnotation(n.ObjectMeta, managedAnnotation) {
		return assumed
	}
	return slices.Contains(n.Status.VolumesInUse, volume)
}

// judgeDetach decides whether a volume that nobody wants on a node may be detached from it. waited is how long
// the volume has been unwanted.
func judgeDetach(mounted bool, is condition, waited time.Duration, disableTimeout bool) detachVerdict {
	timeout := waited > maxWait && !disableTimeout
	v := detachVerdict{detach: true}
	switch {
	case timeout:
		v.why = byTimeout
	case is.outOfService:
		v.why = byOutOfService
	}
	if !mounted || timeout && !is.healthy || is.outOfService {
		return v
	}
	v = detachVerdict{}
	if !timeout && !disableTimeout {
		v.again = maxWait - waited + time.Nanosecond
	}
	return v
}

// isSafe reports whether a node, as the API server has it, lets a volume be detached: the node is gone, does
// not use the volume, or fulfils what forces the detach.
func isSafe(n *corev1.Node, volume corev1.UniqueVolumeName, why forced) bool {
	if n == nil || !slices.Contains(n.Status.VolumesInUse, volume) {
		return true
	}
	is := conditionOf(n)
	return why != notForced && is.outOfService || why == byTimeout && !is.healthy
}

// attachVerdict is what becomes of a volume that is wanted on a node.
type attachVerdict int

const (
	keep attachVerdict = iota
	attach
	reportMultiAttach
	busy
)

// judgeAttach decides about a volume that is wanted on a node. excluded is set if a running operation
// excludes another one, held if the volume may be attached to one node only, and certainly is attached to
// another one.
func judgeAttach(state attachState, excluded, held bool) attachVerdict {
	switch {
	case excluded:
		return busy
	case state == attached:
		return keep
	case held:
		return reportMultiAttach
	}
	return attach
}
