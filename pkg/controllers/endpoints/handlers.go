package endpoints

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"kcmd.dev/pkg/controllers/kit/podchanges"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *endpointsController) watch(services, pods, endpoints cache.SharedIndexInformer) error {
	return errors.Join(
		watch.Objects(services, c.serviceFuncs()),
		watch.Objects(pods, podchanges.Funcs(c.podLoop)),
		watch.Objects(endpoints, c.endpointsFuncs()),
	)
}

// serviceFuncs queue a Service on every notification, resyncs included.
func (c *endpointsController) serviceFuncs() watch.Funcs[*corev1.Service] {
	key := func(s *corev1.Service) string { return s.Namespace + "/" + s.Name }
	return watch.Funcs[*corev1.Service]{
		Add:    func(lane reconcile.Lane, s *corev1.Service) { c.serviceLoop.Enqueue(lane, key(s)) },
		Update: func(lane reconcile.Lane, _, s *corev1.Service) { c.serviceLoop.Enqueue(lane, key(s)) },
		Delete: func(s *corev1.Service) { c.serviceLoop.Add(key(s)) },
	}
}

// endpointsFuncs queue the Service of deleted Endpoints. Without one in the cache nothing is
// to be made again: should there be a Service all the same, it is queued when the cache
// shows it. Other changes are not watched: our own writes would cause most of them.
func (c *endpointsController) endpointsFuncs() watch.Funcs[*corev1.Endpoints] {
	return watch.Funcs[*corev1.Endpoints]{
		Delete: func(e *corev1.Endpoints) {
			if _, err := c.services.Services(e.Namespace).Get(e.Name); !apierrors.IsNotFound(err) {
				c.serviceLoop.Add(e.Namespace + "/" + e.Name)
			}
		},
	}
}

// queueLeftovers queues the Endpoints whose Service went while nobody watched. Those with a
// Service are queued with it, and those with a leader election record have none.
func (c *endpointsController) queueLeftovers() error {
	all, err := c.endpoints.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing Endpoints: %w", err)
	}
	for _, e := range all {
		if _, isLock := e.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]; isLock {
			continue
		}
		if _, err := c.services.Services(e.Namespace).Get(e.Name); apierrors.IsNotFound(err) {
			c.serviceLoop.Enqueue(reconcile.Backlog, e.Namespace+"/"+e.Name)
		}
	}
	return nil
}
