// Package horizontalpodautoscaler scales workloads with their load: for each
// HorizontalPodAutoscaler it reads metrics, computes how many replicas they require, and
// updates the scale of the target.
//
// The model, in rules:
//
//  1. An autoscaler is evaluated one sync period after it was first seen, and then one sync
//     period after each evaluation, whatever its result. Nothing else triggers an evaluation:
//     events only ensure that the key is waiting.
//  2. An evaluation reads the live scale of the target, computes a size (metric by metric of
//     the spec), limits it (stabilization and rate limits), writes the scale if it differs, and
//     ends with at most one status update.
//  3. Every computation is a pure function of the values read, the time and the history: the
//     size that one metric requires (fromPods, fromRatio, fromTotal), and how it is limited
//     (temper, temperByBehavior).
//  4. A metric that cannot be read never causes a scale down: unless the others require at
//     least the present size, the evaluation ends with an error.
//  5. For pods whose metrics are missing or not reliable yet, values that damp the change are
//     assumed (see fromPods).
//  6. A workload that was scaled to zero by somebody else is not scaled.
//  7. Two autoscalers must not select the same pods. The selectors of all autoscalers are kept
//     in memory to detect that (see selectors).
//  8. State that is only in memory, the recommendations and scale events of each autoscaler, since
//     when it waits, and the selectors, is handed over to the next instance. All of it belongs to the UID of an
//     autoscaler, and what is known of a target to that target and its UID. If that instance starts more than a period
//     after the last one ended, another process may have evaluated in the meantime: the present size then counts
//     as a recommendation, as in an autoscaler's first evaluation, and in the first one after a pause.
//
// Behaviour: docs/specs/horizontal-pod-autoscaler-controller.md.
package horizontalpodautoscaler

import (
	"context"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	"k8s.io/client-go/tools/cache"
	"k8s.io/metrics/pkg/client/custom_metrics"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Descriptor describes horizontal-pod-autoscaler-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "horizontal-pod-autoscaler-controller",
		Aliases:        []string{"horizontalpodautoscaling"},
		ServiceAccount: "horizontal-pod-autoscaler",
		EventSource:    "horizontal-pod-autoscaler",
		Requires: []schema.GroupVersionResource{
			autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers"),
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
	}, configOf, build)
}

// config is the part of the configuration that the controller depends on.
type config struct {
	concurrentSyncs         int           // autoscalers evaluated concurrently
	syncPeriod              time.Duration // between evaluations of one autoscaler
	downscaleStabilization  time.Duration // window in which the highest recommendation counts
	tolerance               float64       // accepted deviation from the target, as a fraction
	cpuInitializationPeriod time.Duration // after the start of a pod, its CPU samples may be skipped
	initialReadinessDelay   time.Duration // changes of readiness within it count as initial
	configurableTolerance   bool          // whether spec.behavior may set tolerances
	scaleToZero             bool          // whether minReplicas may be 0
	podLevelResources       bool          // whether requests of whole pods count
}

func configOf(c *controller.Config) config {
	hpa := c.Controllers.HorizontalPodAutoscaler
	return config{
		concurrentSyncs:         int(*hpa.ConcurrentSyncs),
		syncPeriod:              hpa.SyncPeriod.Duration,
		downscaleStabilization:  hpa.DownscaleStabilization.Duration,
		tolerance:               *hpa.Tolerance,
		cpuInitializationPeriod: hpa.CPUInitializationPeriod.Duration,
		initialReadinessDelay:   hpa.InitialReadinessDelay.Duration,
		configurableTolerance:   gates.Enabled(c, gates.HPAConfigurableTolerance),
		scaleToZero:             gates.Enabled(c, gates.HPAScaleToZero),
		podLevelResources:       gates.Enabled(c, gates.PodLevelResources),
	}
}

type autoscalerController struct {
	controller.Env
	clients
	config  config
	metrics controllerMetrics

	autoscalers autoscalinglisters.HorizontalPodAutoscalerLister
	pods        index.SelectedPods

	selectors *selectors
	histories *histories
	queue     queue // the loop, except in tests
	loop      *reconcile.Loop[cache.ObjectName]
}

// queue is what the controller adds keys to.
type queue interface {
	// AddRateLimited adds a key after a sync period.
	AddRateLimited(key cache.ObjectName)
	AddAfter(key cache.ObjectName, delay time.Duration)
}

func build(env controller.Env, config config) (*autoscalerController, error) {
	clients, err := newClients(env)
	if err != nil {
		return nil, err
	}
	return newController(env, config, clients), nil
}

func newController(env controller.Env, config config, clients clients) *autoscalerController {
	autoscalers := env.Informers.Autoscaling().V2().HorizontalPodAutoscalers()
	c := &autoscalerController{
		Env:         env,
		config:      config,
		clients:     clients,
		metrics:     newMetrics(env.Metrics),
		autoscalers: autoscalers.Lister(),
		pods:        index.NewSelectedPods(env.Informers.Core().V1().Pods().Informer()),
		selectors:   newSelectors(),
		histories:   newHistories(),
	}
	c.loop = reconcile.New(env, reconcile.Options[cache.ObjectName]{
		Queue: "horizontalpodautoscaler", Workers: config.concurrentSyncs, Backoff: everyPeriod(config.syncPeriod),
	}, c.reconcile)
	c.queue = c.loop
	c.watch(autoscalers.Informer())
	return c
}

// Run implements controller.Controller.
func (c *autoscalerController) Run(ctx context.Context) error {
	defer c.Pauses.Follow(c.pausesChanged)()
	return reconcile.Run(ctx, c.Env, c.begin, c.loop.Run, c.refreshVersions)
}

// pausesChanged notes which autoscalers are not evaluated any more.
func (c *autoscalerController) pausesChanged() { c.histories.hold(c.Pauses.Hold) }

// refreshVersions refreshes the API versions of custom metrics periodically.
func (c *autoscalerController) refreshVersions(ctx context.Context) error {
	custom_metrics.PeriodicallyInvalidate(c.apiVersions, c.config.syncPeriod, ctx.Done())
	return nil
}
