package endpoints

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/services/podchanges"
)

// reconcile brings the Endpoints of one Service to their desired state. It does so again once a write without an answer
// cannot be executed any more: nobody watches what that would do. After a failure, the retry does.
func (c *endpointsController) reconcile(ctx context.Context, key types.NamespacedName) error {
	if err := c.sync(ctx, key); err != nil {
		return err
	}
	if rest := c.memory.lateRest(key, c.Clock.Now()); rest > 0 {
		c.serviceQueue.AddAfter(key, rest)
	}
	return nil
}

func (c *endpointsController) sync(ctx context.Context, key types.NamespacedName) error {
	service, found, err := reconcile.Found(c.services.Services(key.Namespace).Get(key.Name))
	switch {
	case err != nil:
		return err
	case !found:
		return c.remove(ctx, key)
	case !podchanges.Selects(service):
		return nil
	}

	pods, err := c.selected.By(key.Namespace, service.Spec.Selector)
	if err != nil {
		return fmt.Errorf("listing pods of Service %s: %w", key, err)
	}
	triggerTime := c.memory.triggerTime(key, service, pods)
	err = c.write(ctx, key, service, pods, triggerTime)
	switch {
	case errors.Is(err, errNamespaceTerminating):
		if service.DeletionTimestamp == nil {
			c.serviceQueue.AddAfter(key, reconcile.RecheckAfter)
		}
		return nil
	case err != nil:
		return err
	}
	c.memory.written(key)
	return nil
}

// write creates or updates the Endpoints of a Service, if what is stored is not as wanted.
func (c *endpointsController) write(
	ctx context.Context, key types.NamespacedName, service *corev1.Service, pods []*corev1.Pod, triggerTime time.Time,
) error {
	current, found, err := reconcile.Found(c.endpoints.Endpoints(key.Namespace).Get(key.Name))
	if err != nil {
		return err
	}
	if !found {
		return c.create(ctx, key, newContents(service, pods).applied(nil, triggerTime))
	}
	if c.memory.outdated(key, current.ResourceVersion, c.Clock.Now()) {
		return reconcile.AwaitCache(fmt.Errorf(
			"endpoints informer cache is out of date, resource version %s already processed for endpoints %s",
			current.ResourceVersion, key))
	}
	wanted := newContents(service, pods)
	if wanted.stored(current) && !c.memory.doubtful(key, current.ResourceVersion) {
		return nil
	}
	return c.update(ctx, key, current, wanted.applied(current, triggerTime))
}

// reconcilePodChange queues the Services that a change of a pod concerns.
func (c *endpointsController) reconcilePodChange(_ context.Context, change podchanges.Change) error {
	return change.Enqueue(c.selecting, c.serviceQueue, c.config.batchPeriod)
}
