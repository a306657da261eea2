package endpoints

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/services/podchanges"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *endpointsController) watch() {
	core := c.Informers.Core().V1()
	watch.Objects(core.Services().Informer(), podchanges.ServiceFuncs(c.serviceQueue))
	watch.Objects(core.Pods().Informer(), podchanges.Funcs(c.podQueue, c.selecting))
	watch.Objects(core.Endpoints().Informer(), c.endpointsFuncs())
}

// leftoverAfter is the delay before Endpoints without a Service that appear while the instance runs are deleted. When a
// cluster is restored, they may come before their Service.
const leftoverAfter = 10 * time.Minute

// endpointsFuncs queue the Service of deleted Endpoints, also if others of their name have come since, which
// may be seen as one update. Without a Service in the cache nothing is created again: if there is one
// nevertheless, it is queued when the cache shows it. Other changes are not watched: our own writes would cause
// most of them. Only of Endpoints that appear it is examined whether they are leftovers.
func (c *endpointsController) endpointsFuncs() watch.Funcs[*corev1.Endpoints] {
	return watch.Funcs[*corev1.Endpoints]{
		Add:      c.appeared,
		UpdateIf: func(old, e *corev1.Endpoints) bool { return old.UID != e.UID },
		Update:   func(_ reconcile.Lane, old, _ *corev1.Endpoints) { c.deleted(old) },
		Delete:   c.deleted,
	}
}

func (c *endpointsController) deleted(e *corev1.Endpoints) {
	if _, err := c.services.Services(e.Namespace).Get(e.Name); !apierrors.IsNotFound(err) {
		c.serviceQueue.Add(reconcile.KeyOf(e))
	}
}

// appeared queues Endpoints of ours whose Service is gone, and that were not there when the leftovers were queued: a
// list lacked them, or a process that has ended created them late.
func (c *endpointsController) appeared(lane reconcile.Lane, e *corev1.Endpoints) {
	if !lane.IsBacklog() && e.Labels[managedByLabel] == managedBy && c.isLeftover(e) {
		c.serviceQueue.AddAfter(reconcile.KeyOf(e), leftoverAfter)
	}
}

// isLeftover reports whether the cache shows no Service of Endpoints. Those with a leader election record have none.
func (c *endpointsController) isLeftover(e *corev1.Endpoints) bool {
	if _, isLock := e.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]; isLock {
		return false
	}
	_, err := c.services.Services(e.Namespace).Get(e.Name)
	return apierrors.IsNotFound(err)
}

// queueForgotten queues the Services that are remembered but gone: they were deleted while nobody watched, and
// are forgotten when they are reconciled.
func (c *endpointsController) queueForgotten() {
	for key := range c.memory.keys() {
		if _, err := c.services.Services(key.Namespace).Get(key.Name); apierrors.IsNotFound(err) {
			c.serviceQueue.Enqueue(reconcile.Backlog, key)
		}
	}
}

// queueLeftovers queues the Endpoints whose Service was deleted while nobody watched. Those with a
// Service are queued with it.
func (c *endpointsController) queueLeftovers() error {
	all, err := c.endpoints.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing Endpoints: %w", err)
	}
	for _, e := range all {
		if c.isLeftover(e) {
			c.serviceQueue.Enqueue(reconcile.Backlog, reconcile.KeyOf(e))
		}
	}
	return nil
}
