package garbagecollector

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// errUnseen causes a retry: until an informer shows the object, it could be deleted unnoticed.
// See kubernetes/kubernetes#56121.
var errUnseen = errors.New("no informer shows the object")

// attemptToDelete deletes the object of a node if it no longer has an owner.
func (c *collector) attemptToDelete(ctx context.Context, n *node) error {
	err := c.consider(ctx, n)
	var unmapped *mappingError
	switch {
	case errors.Is(err, errGone):
		return nil
	case errors.Is(err, errScope):
		klog.FromContext(ctx).V(2).Info("Ignoring a cluster-scoped object with a namespaced owner", "object", n.identity)
		return nil
	case errors.As(err, &unmapped):
		return reconcile.Requeue(err)
	case err != nil:
		return err
	}
	if s := c.graph.look(n); s.current && (s.virtual || s.unwatched) {
		return reconcile.Requeue(errUnseen)
	}
	return nil
}

func (c *collector) consider(ctx context.Context, n *node) error {
	s := c.graph.look(n)
	switch {
	case !s.current:
		return nil
	case s.unwatched:
		return c.considerUnwatched(ctx, n, s)
	case s.deletingDependents:
		return c.deleteInForeground(ctx, n, s)
	case s.beingDeleted:
		return nil // its dependents are examined when it is gone
	}
	if settled, err := c.considerCached(ctx, n, s); settled || err != nil {
		return err
	}
	return c.considerLive(ctx, n, s)
}

// considerCached decides from the cached copy where a stale copy does no harm: to keep the
// object, since a change of its owners enqueues it again, or to delete it under the
// precondition that the copy is not stale.
func (c *collector) considerCached(ctx context.Context, n *node, s state) (settled bool, err error) {
	if s.virtual {
		return false, nil
	}
	item, found := c.monitors.cached(s.resource, n.identity)
	if !found {
		return false, nil
	}
	refs := item.GetOwnerReferences()
	if len(refs) == 0 || item.GetDeletionTimestamp() != nil {
		return true, nil
	}
	o, err := c.classify(ctx, n.identity, refs)
	if err != nil {
		return false, err
	}
	v := judge(o, s, item.GetFinalizers())
	if v.action == keep {
		return true, nil
	}
	if v.action != discard {
		return false, nil
	}
	at, err := c.locateNode(n, s)
	if err != nil {
		return false, err
	}
	err = c.delete(ctx, at, item, v.policy)
	if apierrors.IsConflict(err) {
		return false, nil
	}
	return true, c.resolveNotFound(ctx, at, n, err)
}

// considerUnwatched decides about an object that no informer shows, from a live read alone.
func (c *collector) considerUnwatched(ctx context.Context, n *node, s state) error {
	at, item, err := c.find(ctx, n, s)
	if err != nil {
		return err
	}
	c.apply(ctx, &change{kind: changeAnswered, lane: reconcile.Fresh, node: n, new: item})
	switch s = c.graph.look(n); {
	case !s.current:
		return nil
	case s.deletingDependents:
		return c.deleteInForeground(ctx, n, s)
	case s.beingDeleted:
		return nil
	}
	return c.decide(ctx, at, n, s, item)
}

// considerLive decides from a live read of the object.
func (c *collector) considerLive(ctx context.Context, n *node, s state) error {
	at, item, err := c.find(ctx, n, s)
	if err != nil {
		return err
	}
	return c.decide(ctx, at, n, s, item)
}

// find reads the object of a node live. If there is none, it updates the graph.
func (c *collector) find(ctx context.Context, n *node, s state) (location, *metav1.PartialObjectMetadata, error) {
	at, err := c.locateNode(n, s)
	if err != nil {
		return location{}, nil, err
	}
	item, err := c.read(ctx, at, n.uid)
	if errors.As(err, new(*mappingError)) && !s.virtual && c.isElsewhere(ctx, at) {
		item, err = nil, nil
	}
	if err == nil && item == nil {
		err = c.recordAbsent(ctx, at, n)
	}
	return at, item, err
}

// decide acts on an object as its owners, as just read, require.
func (c *collector) decide(
	ctx context.Context, at location, n *node, s state, item *metav1.PartialObjectMetadata,
) error {
	if len(item.OwnerReferences) == 0 || item.DeletionTimestamp != nil {
		return nil // its deletion has already chosen a propagation policy
	}
	o, err := c.classify(ctx, n.locatedAt(at), item.OwnerReferences)
	if errors.Is(err, errScope) && (s.virtual || s.unwatched) {
		return reconcile.Requeue(errUnseen)
	}
	if err != nil {
		return err
	}
	v := judge(o, s, item.Finalizers)
	logger := klog.FromContext(ctx)
	switch v.action {
	case disown:
		logger.V(2).Info("Removing owners that are gone or being deleted", "object", n.identity, "owners", v.disowned)
		_, err := c.disown(ctx, at, n, v.disowned)
		return c.resolveNotFound(ctx, at, n, err)
	case unblock:
		if item, err = c.unblock(ctx, at, item); err != nil {
			return c.resolveNotFound(ctx, at, n, err)
		}
		return c.resolveNotFound(ctx, at, n, c.deleteUnchanged(ctx, at, item, v.policy))
	case discard:
		return c.resolveNotFound(ctx, at, n, c.deleteUnchanged(ctx, at, item, v.policy))
	}
	return nil
}

// resolveNotFound turns the NotFound error of a write into errGone if the object is indeed gone: an admission webhook
// can refuse a write with such an error.
func (c *collector) resolveNotFound(ctx context.Context, at location, n *node, err error) error {
	if err = c.confirm(ctx, at, n, err); errors.Is(err, errGone) {
		return c.recordAbsent(ctx, at, n)
	}
	return err
}

// confirm returns errGone for the NotFound error of a write if a live read shows that there is no object of a node.
func (c *collector) confirm(ctx context.Context, at location, n *node, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	switch item, failed := c.read(ctx, at, n.uid); {
	case failed != nil:
		return failed
	case item != nil:
		return err
	}
	return errGone
}

// recordAbsent records in the graph that the object of a node does not exist at a location.
func (c *collector) recordAbsent(ctx context.Context, at location, n *node) error {
	c.apply(ctx, &change{kind: changeAbsent, identity: n.locatedAt(at)})
	return errGone
}

// deleteInForeground releases an owner in foreground deletion once nothing blocks it.
func (c *collector) deleteInForeground(ctx context.Context, n *node, s state) error {
	blocking, idle := c.graph.blockers(n)
	if blocking == 0 {
		return c.removeFinalizer(ctx, n, s, metav1.FinalizerDeleteDependents)
	}
	for _, dependent := range idle {
		c.attempt.add(reconcile.Fresh, dependent)
	}
	if c.graph.blocksItself(n) {
		return c.breakCycle(ctx, n, s)
	}
	return nil
}

// breakCycle lets the owners of an object in foreground deletion be deleted before it. Otherwise each object of a cycle
// would wait for the next one forever, since none of them is to be deleted any more.
func (c *collector) breakCycle(ctx context.Context, n *node, s state) error {
	at, item, err := c.find(ctx, n, s)
	if err != nil || !deletingDependents(item) {
		return err
	}
	_, err = c.unblock(ctx, at, item)
	return c.resolveNotFound(ctx, at, n, err)
}

// delete deletes an object if it has not changed since it was read.
func (c *collector) delete(
	ctx context.Context, at location, item metav1.Object, policy metav1.DeletionPropagation,
) error {
	uid, version := item.GetUID(), item.GetResourceVersion()
	klog.FromContext(ctx).V(2).Info("Deleting an object without owners", "resource", at.resource,
		"namespace", at.namespace, "name", at.name, "uid", uid, "propagationPolicy", policy)
	return c.deleteIf(ctx, at, metav1.Preconditions{UID: &uid, ResourceVersion: &version}, policy)
}

func (c *collector) deleteIf(
	ctx context.Context, at location, preconditions metav1.Preconditions, policy metav1.DeletionPropagation,
) error {
	err := c.client(at).Delete(ctx, at.name, metav1.DeleteOptions{Preconditions: &preconditions, PropagationPolicy: &policy})
	if err := at.unserved(err); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("deleting %s %s/%s: %w", at.resource.GroupResource(), at.namespace, at.name, err)
	}
	return nil
}

// deleteUnchanged deletes an object if neither its owners nor what is to become of its dependents have changed since it
// was read. Other changes do not prevent that, or an object that is updated all the time would never be deleted: see
// kubernetes/kubernetes#114603.
func (c *collector) deleteUnchanged(
	ctx context.Context, at location, item *metav1.PartialObjectMetadata, policy metav1.DeletionPropagation,
) error {
	conflict := c.delete(ctx, at, item, policy)
	if !apierrors.IsConflict(conflict) {
		return conflict
	}
	now, err := c.read(ctx, at, item.UID)
	switch {
	case err != nil:
		return err
	case now == nil:
		return apierrors.NewNotFound(at.resource.GroupResource(), at.name)
	case now.DeletionTimestamp != nil:
		return nil // as in decide
	case now.ResourceVersion == item.ResourceVersion ||
		policyOf(now.Finalizers) != policyOf(item.Finalizers) || !sameReferences(now.OwnerReferences, item.OwnerReferences):
		return conflict
	}
	return c.deleteIf(ctx, at, metav1.Preconditions{UID: &item.UID}, policy)
}
