package horizontalpodautoscaler

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch adds the handler of autoscalers. All keys wait for a period, so there is no lane to
// choose; a waiting key keeps its time.
func (c *autoscalerController) watch(autoscalers cache.SharedIndexInformer) {
	watch.ObjectsEvery(autoscalers, c.config.syncPeriod, watch.Funcs[*autoscalingv2.HorizontalPodAutoscaler]{
		AddOrUpdate: func(_ reconcile.Lane, hpa *autoscalingv2.HorizontalPodAutoscaler) { c.enqueue(hpa) },
		Delete: func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
			c.metrics.autoscalers.Set(float64(c.selectors.remove(cache.MetaObjectToName(hpa))))
		},
	})
}

func (c *autoscalerController) enqueue(hpa *autoscalingv2.HorizontalPodAutoscaler) {
	key := cache.MetaObjectToName(hpa)
	c.metrics.autoscalers.Set(float64(c.selectors.register(key, hpa.UID)))
	c.histories.seen(key, hpa.UID, c.Clock.Now())
	c.queue.AddRateLimited(key)
}
