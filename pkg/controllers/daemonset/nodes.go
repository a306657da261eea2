package daemonset

import (
	"context"
	"errors"
	"fmt"
	"sync"

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
	c.nodeQueue.Enqueue(lane, node.Name)
}

// nodeUpdated ignores updates that do not change eligibility, above all heartbeats.
func (c *daemonSetController) nodeUpdated(lane reconcile.Lane, old, node *corev1.Node) {
	sameLabels := equality.Semantic.DeepEqual(old.Labels, node.Labels)
	if sameLabels && equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) {
		return
	}
	c.former.keep(old)
	c.nodeQueue.Enqueue(lane, node.Name)
}

func (c *daemonSetController) nodeDeleted(node *corev1.Node) {
	c.former.keep(node)
	c.nodeQueue.Enqueue(reconcile.Gone(node), node.Name)
}

// formerNodes are the nodes that have been changed or deleted since they were reconciled, as they were before.
type formerNodes struct {
	mu     sync.Mutex
	byName map[string]*corev1.Node
}

// keep keeps a node, unless an earlier state of it is kept.
func (f *formerNodes) keep(node *corev1.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byName == nil {
		f.byName = map[string]*corev1.Node{}
	}
	if f.byName[node.Name] == nil {
		f.byName[node.Name] = node
	}
}

// take returns the node that was kept, nil if there is none, and forgets it.
func (f *formerNodes) take(name string) *corev1.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	node := f.byName[name]
	delete(f.byName, name)
	return node
}

// reconcileNode enqueues the sets that have to act on a node.
func (c *daemonSetController) reconcileNode(ctx context.Context, name string) error {
	former := c.former.take(name)
	err := c.compareNode(ctx, name, former)
	if err != nil && former != nil {
		c.former.keep(former)
	}
	return err
}

// compareNode enqueues the sets that have to act on a node, which may be gone. former is the node as it was before,
// nil if that is not known.
func (c *daemonSetController) compareNode(ctx context.Context, name string, former *corev1.Node) error {
	node, err := c.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		node, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("reading node %s: %w", name, err)
	}
	if node == nil && former == nil {
		return nil
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
		was, is := blueprint.onAny(logger, former), blueprint.onAny(logger, node)
		if was.exceeds(is) || node != nil && concerned(is, present[reconcile.KeyOf(ds)], ds.Status.NumberMisscheduled) {
			c.owners.Enqueue(reconcile.Fresh, ds)
		}
	}
	return errors.Join(errs...)
}

// onAny returns the eligibility of a node, none if it is nil.
func (b *blueprint) onAny(logger klog.Logger, node *corev1.Node) eligibility {
	if node == nil {
		return eligibility{}
	}
	return b.placement.on(logger, node)
}

// exceeds reports whether a pod should run, or may stay, that should or may not with the other eligibility. The pod may
// be pinned to the node and not scheduled, so that the index of pods by node does not show it.
func (e eligibility) exceeds(other eligibility) bool {
	return e.run && !other.run || e.remain && !other.remain
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
