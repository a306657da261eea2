package daemonset

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (c *daemonSetController) nodeAdded(lane reconcile.Lane, node *corev1.Node) {
	c.nodeLoop.Enqueue(lane, node.Name)
}

// nodeUpdated ignores updates that do not change eligibility, above all heartbeats.
func (c *daemonSetController) nodeUpdated(lane reconcile.Lane, old, node *corev1.Node) {
	if equality.Semantic.DeepEqual(old.Labels, node.Labels) && equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) {
		return
	}
	c.nodeLoop.Enqueue(lane, node.Name)
}

// reconcileNode enqueues the sets that have to act on a node. A deleted node needs no action:
// the deletion of each of its pods is an event.
func (c *daemonSetController) reconcileNode(ctx context.Context, name string) error {
	node, err := c.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading node %s: %w", name, err)
	}
	sets, err := c.sets.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing DaemonSets: %w", err)
	}
	there, err := c.podsOn.On(name)
	if err != nil {
		return err
	}
	present := setsOf(there)
	logger := klog.FromContext(ctx)
	var errs []error
	for _, ds := range sets {
		blueprint, err := c.blueprints.of(ds)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if concerned(blueprint.placement.on(logger, node), present[reconcile.KeyOf(ds)], ds.Status.NumberMisscheduled) {
			c.owners.Enqueue(reconcile.Fresh, ds)
		}
	}
	return errors.Join(errs...)
}

// concerned reports whether a set has to act on a node. That includes a set that counts
// misscheduled pods and has one there, which may no longer be misscheduled.
func concerned(e eligibility, present bool, misscheduled int32) bool {
	return e.run && !present || !e.remain && present || present && misscheduled > 0
}

// setsOf returns the DaemonSets, by name, that the pods belong to.
func setsOf(all []*corev1.Pod) map[types.NamespacedName]bool {
	sets := map[types.NamespacedName]bool{}
	for _, pod := range all {
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.Kind == daemonSetKind.Kind {
			sets[types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}] = true
		}
	}
	return sets
}
