package podgc

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
)

// passPeriod is the time between the end of a pass and the next one.
const passPeriod = 20 * time.Second

// pass finds and deletes pods once. No further pod is started once ctx has ended; requests use
// the context working.
func (gc *podGC) pass(ctx, working context.Context) {
	gc.deleteAll(ctx, working, gc.excessive(), reasonTerminated)
	gc.deleteAll(ctx, working, gc.outOfService(ctx, working), reasonOutOfService)
	gc.deleteOrphaned(ctx, working)
	gc.deleteAll(ctx, working, gc.indexed(terminatingIndex, unscheduled), reasonUnscheduled)
}

// excessive returns the finished pods beyond the threshold that are not being deleted already.
func (gc *podGC) excessive() []*corev1.Pod {
	if gc.threshold <= 0 {
		return nil
	}
	return excess(gc.indexed(terminatedIndex, terminated), gc.threshold)
}

// outOfService returns the pods being deleted on nodes that are out of service. Such a node is read live: the cache may
// not show yet that it was taken into service again, and its pods may be running.
func (gc *podGC) outOfService(ctx, working context.Context) []*corev1.Pod {
	var found []*corev1.Pod
	for _, name := range gc.pods.ListIndexFuncValues(terminatingIndex) {
		if name == unscheduled {
			continue
		}
		node, err := gc.nodes.Get(name)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Skipping pods being deleted on an unknown node", "node", name, "err", err)
			continue
		}
		if !isOutOfService(node) {
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		bound := gc.indexed(terminatingIndex, name)
		live, err := gc.Client.CoreV1().Nodes().Get(working, name, metav1.GetOptions{})
		switch {
		case err != nil:
			klog.FromContext(ctx).Error(err, "Failed to read a node out of service, keeping its pods", "node", name)
		case isOutOfService(live):
			found = append(found, bound...)
		}
	}
	sortForDeletion(found)
	return found
}

// deleteOrphaned deletes the pods of nodes that do not exist. Whatever became of its pods, a node
// that was due has a new period. If ctx or working ends before all are done, the nodes stay due, for
// the successor.
func (gc *podGC) deleteOrphaned(ctx, working context.Context) {
	now := gc.Clock.Now()
	missing := slices.DeleteFunc(gc.pods.ListIndexFuncValues(index.PodsByNode), gc.isShown)
	gc.quarantine.update(missing, now)
	due := gc.quarantine.due(now)
	gc.deleteAll(ctx, working, gc.orphaned(ctx, working, due), reasonOrphaned)
	if ctx.Err() == nil && working.Err() == nil {
		gc.quarantine.renew(due, now)
	}
}

// orphaned returns the pods of those of the nodes that are known not to exist.
func (gc *podGC) orphaned(ctx, working context.Context, nodes []string) []*corev1.Pod {
	var found []*corev1.Pod
	for _, name := range nodes {
		if ctx.Err() != nil {
			return nil
		}
		// Before the node is read: it may be registered again afterwards, and get new pods.
		bound := gc.indexed(index.PodsByNode, name)
		gone, err := gc.isGone(working, name)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed to read a missing node, keeping its pods", "node", name)
		}
		if gone {
			found = append(found, bound...)
		}
	}
	return found
}

// isShown reports whether the cache contains a node. Its lister returns no error other than
// NotFound.
func (gc *podGC) isShown(name string) bool {
	_, err := gc.nodes.Get(name)
	return err == nil
}

// isGone reads live whether a node that is not cached exists.
func (gc *podGC) isGone(ctx context.Context, name string) (bool, error) {
	if gc.isShown(name) {
		return false, nil
	}
	_, err := gc.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if controller.Absent(err) {
		return true, nil
	}
	return false, err
}

// indexed returns the pods that an index has under a key.
func (gc *podGC) indexed(name, key string) []*corev1.Pod {
	found, err := index.Append[*corev1.Pod](nil, gc.pods, name, key)
	if err != nil {
		return nil // the index was added when the controller was built
	}
	return found
}
