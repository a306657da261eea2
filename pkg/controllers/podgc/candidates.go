package podgc

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	nodeutil "k8s.io/component-helpers/node/util"

	"kcmd.dev/pkg/controllers/kit/index"
)

const (
	// terminatedIndex indexes finished pods under the key terminated.
	terminatedIndex = "podgcTerminated"
	terminated      = "terminated"

	// terminatingIndex indexes pods that are being deleted by the name of their node, which is
	// empty before they are scheduled.
	terminatingIndex = "podgcTerminating"
	unscheduled      = ""
)

// addIndexes adds the indexes that passes read.
func addIndexes(informer cache.SharedIndexInformer) {
	index.Ensure(informer, terminatedIndex, ofPod(terminatedKeys))
	index.Ensure(informer, terminatingIndex, ofPod(terminatingKeys))
	index.NewNodePods(informer)
}

func ofPod(keys func(*corev1.Pod) []string) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, nil
		}
		return keys(pod), nil
	}
}

// terminatedKeys indexes every pod that is not Pending, Running or Unknown, including pods
// without a phase.
func terminatedKeys(pod *corev1.Pod) []string {
	switch pod.Status.Phase {
	case corev1.PodPending, corev1.PodRunning, corev1.PodUnknown:
		return nil
	}
	return []string{terminated}
}

func terminatingKeys(pod *corev1.Pod) []string {
	if pod.DeletionTimestamp == nil {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

// excess returns which of the ended pods to delete so that the threshold is kept. Pods that
// only a finalizer keeps count, but are not returned.
func excess(ended []*corev1.Pod, threshold int) []*corev1.Pod {
	surplus := len(ended) - threshold
	if surplus <= 0 {
		return nil
	}
	sortForDeletion(ended)
	return slices.DeleteFunc(ended[:surplus], isHeld)
}

// isHeld reports whether deleting a pod again would have no effect.
func isHeld(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil &&
		*pod.DeletionGracePeriodSeconds == 0 && len(pod.Finalizers) > 0
}

// sortForDeletion sorts pods in the order in which they are deleted: evicted ones, then older ones, then by name.
func sortForDeletion(list []*corev1.Pod) {
	slices.SortStableFunc(list, func(a, b *corev1.Pod) int {
		if evictedA, evictedB := isEvicted(a), isEvicted(b); evictedA != evictedB {
			if evictedA {
				return -1
			}
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

func isEvicted(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "Evicted"
}

// isOutOfService reports whether an administrator has tainted a node as out of service and it
// is not ready.
func isOutOfService(node *corev1.Node) bool {
	return !isReady(node) && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	})
}

func isReady(node *corev1.Node) bool {
	_, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionTrue
}
