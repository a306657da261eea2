package horizontalpodautoscaler

import (
	"context"
	"time"

	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// reconcile evaluates an autoscaler and enqueues it for its next evaluation.
func (c *autoscalerController) reconcile(ctx context.Context, key cache.ObjectName) error {
	began := c.Clock.Now()
	hpa, found, err := reconcile.Found(c.autoscalers.HorizontalPodAutoscalers(key.Namespace).Get(key.Name))
	if err != nil {
		return err
	}
	if !found {
		c.histories.forget(key)
		c.metrics.forget(key)
		return nil
	}
	e := c.newEvaluation(key, hpa.DeepCopy(), began)
	err = e.run(ctx)
	c.metrics.reconciled(e.action, err, c.Clock.Since(began))
	if ctx.Err() == nil {
		c.histories.evaluated(key, hpa.UID, c.Clock.Now())
	}
	if err != nil {
		return err // the loop adds the key again, after the same delay
	}
	c.queue.AddRateLimited(key)
	return nil
}

// everyPeriod is the rate limiter of a queue whose keys always wait for the same time. There is
// no backoff: an autoscaler that fails is evaluated at the same interval.
type everyPeriod time.Duration

// When implements workqueue.TypedRateLimiter.
func (p everyPeriod) When(cache.ObjectName) time.Duration { return time.Duration(p) }

// Forget implements workqueue.TypedRateLimiter.
func (everyPeriod) Forget(cache.ObjectName) {}

// NumRequeues implements workqueue.TypedRateLimiter.
func (everyPeriod) NumRequeues(cache.ObjectName) int { return 1 }
