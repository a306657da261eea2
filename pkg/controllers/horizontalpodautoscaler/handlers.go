package horizontalpodautoscaler

import (
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// everyPeriod is the rate limiter of a queue whose keys always wait for the same time.
// There is no backoff: an autoscaler that fails is evaluated at the pace of the others.
type everyPeriod time.Duration

// When implements workqueue.TypedRateLimiter.
func (p everyPeriod) When(cache.ObjectName) time.Duration { return time.Duration(p) }

// Forget implements workqueue.TypedRateLimiter.
func (everyPeriod) Forget(cache.ObjectName) {}

// NumRequeues implements workqueue.TypedRateLimiter.
func (everyPeriod) NumRequeues(cache.ObjectName) int { return 1 }

// watch adds the handler of autoscalers. All keys wait for a period, so there is no lane
// to choose: a key that waits keeps its time.
func (c *autoscalerController) watch(autoscalers cache.SharedIndexInformer) error {
	return watch.ObjectsEvery(autoscalers, c.config.syncPeriod, watch.Funcs[*autoscalingv2.HorizontalPodAutoscaler]{
		Add: func(_ reconcile.Lane, hpa *autoscalingv2.HorizontalPodAutoscaler) { c.enqueue(hpa) },
		Update: func(_ reconcile.Lane, _, hpa *autoscalingv2.HorizontalPodAutoscaler) {
			c.enqueue(hpa)
		},
		Delete: func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
			c.metrics.autoscalers.Set(float64(c.selectors.remove(cache.MetaObjectToName(hpa))))
		},
	})
}

func (c *autoscalerController) enqueue(hpa *autoscalingv2.HorizontalPodAutoscaler) {
	key := cache.MetaObjectToName(hpa)
	c.metrics.autoscalers.Set(float64(c.selectors.register(key, hpa.UID)))
	c.loop.AddRateLimited(key)
}

func isGone(err error) bool { return apierrors.IsNotFound(err) }
