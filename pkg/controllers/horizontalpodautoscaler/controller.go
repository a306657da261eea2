// Package horizontalpodautoscaler keeps the size of workloads in step with their load: for
// each HorizontalPodAutoscaler it reads metrics, computes how many replicas they call for,
// and sets the scale of the target.
//
// The model, in rules:
//
//  1. An autoscaler is evaluated one sync period after it was first seen, and then one sync
//     period after each evaluation, whatever its outcome. Nothing else makes it run: events
//     only see to it that its key waits.
//  2. An evaluation reads the live scale of the target, computes a size (metrics, section by
//     section of the spec), tempers it (stabilization and rate limits), writes the scale if
//     it differs, and ends with at most one status update.
//  3. Every computation is pure: what one metric calls for (metricGoal, fromPods,
//     fromRatio), how the whole is tempered (temper, temperByBehavior). They are given what
//     was read, the time and the history.
//  4. A metric that cannot be read never causes a scale down: unless the others call for
//     at least the present size, the evaluation ends with an error.
//  5. Pods whose metrics are missing or not to be trusted yet are assumed to be what damps
//     the change (see fromPods).
//  6. A workload scaled to zero by hand is left alone.
//  7. Two autoscalers must not select the same pods. The selectors of all autoscalers are
//     remembered for that (see selectors).
//  8. What only memory holds, the recommendations and scale events of each autoscaler and
//     the selectors, is handed over to the next instance. All of it belongs to the UID of
//     an autoscaler. If that instance begins more than a period after the last one ended,
//     another process may have evaluated meanwhile: the size it finds counts as a
//     recommendation, as in an autoscaler's first evaluation.
//
// Behaviour: specs/horizontal-pod-autoscaler-controller.md.
package horizontalpodautoscaler

import (
	"context"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/metrics/pkg/client/custom_metrics"
	"k8s.io/utils/clock"

	pkgconfig "kcmd.dev/pkg/config"
	"kcmd.dev/pkg/controllers/kit/concurrent"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Descriptor describes horizontal-pod-autoscaler-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "horizontal-pod-autoscaler-controller",
		Aliases:        []string{"horizontalpodautoscaling"},
		Doc:            "Scales workloads so that their metrics meet the targets of HorizontalPodAutoscalers.",
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
	concurrentSyncs         int           // autoscalers evaluated at once
	syncPeriod              time.Duration // between evaluations of one autoscaler
	downscaleStabilization  time.Duration // window in which the highest recommendation counts
	tolerance               float64       // deviation from the target that is accepted, as a fraction
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
		configurableTolerance:   pkgconfig.Enabled(c, pkgconfig.HPAConfigurableTolerance),
		scaleToZero:             pkgconfig.Enabled(c, pkgconfig.HPAScaleToZero),
		podLevelResources:       pkgconfig.Enabled(c, pkgconfig.PodLevelResources),
	}
}

type autoscalerController struct {
	config      config
	clock       clock.PassiveClock
	client      kubernetes.Interface
	scales      scale.ScalesGetter
	mapper      meta.RESTMapper
	source      metricSource
	apiVersions custom_metrics.AvailableAPIsGetter
	events      record.EventRecorder
	metrics     controllerMetrics
	predecessor func() any
	handlers    func(context.Context) bool // waits until they have seen the whole cache

	autoscalers autoscalinglisters.HorizontalPodAutoscalerLister
	pods        index.SelectedPods

	selectors *selectors
	histories *histories
	// remembered is what the next instance gets.
	remembered memory
	loop       *reconcile.Loop[cache.ObjectName]
}

func build(env controller.Env, config config) (controller.Controller, error) {
	clients, err := newClients(env)
	if err != nil {
		return nil, err
	}
	c, err := newController(env, config, clients)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newController(env controller.Env, config config, clients clients) (*autoscalerController, error) {
	autoscalers := env.Informers.Autoscaling().V2().HorizontalPodAutoscalers()
	pods, err := index.NewSelectedPods(env.Informers.Core().V1().Pods().Informer())
	if err != nil {
		return nil, err
	}
	c := &autoscalerController{
		config:      config,
		clock:       env.Clock,
		client:      env.Client,
		scales:      clients.scales,
		mapper:      env.Mapper,
		source:      clients.source,
		apiVersions: clients.apiVersions,
		events:      env.Events,
		metrics:     newMetrics(env.Metrics),
		predecessor: env.Predecessor,
		handlers:    env.Informers.WaitUntilReady,
		autoscalers: autoscalers.Lister(),
		pods:        pods,
		selectors:   newSelectors(),
		histories:   newHistories(),
	}
	c.remembered = memory{selectors: c.selectors, histories: c.histories}
	c.loop = reconcile.New(env, reconcile.Options[cache.ObjectName]{
		Queue:   "horizontalpodautoscaler",
		Workers: config.concurrentSyncs,
		Backoff: everyPeriod(config.syncPeriod),
	}, c.reconcile)
	return c, c.watch(autoscalers.Informer())
}

// Run implements controller.Controller.
func (c *autoscalerController) Run(ctx context.Context) error {
	inherited, ok := c.predecessor().(memory)
	if ok {
		c.remembered = inherited
	}
	if !c.handlers(ctx) {
		return nil
	}
	if ok {
		c.adopt(inherited)
	}
	c.remembered = memory{selectors: c.selectors, histories: c.histories}
	defer func() { c.remembered.at = c.clock.Now() }()

	return concurrent.Run(ctx, c.loop.Run, func(ctx context.Context) error {
		custom_metrics.PeriodicallyInvalidate(c.apiVersions, c.config.syncPeriod, ctx.Done())
		return nil
	})
}

// memory is what an instance hands over to the next.
type memory struct {
	selectors *selectors
	histories *histories
	at        time.Time // when the last evaluation had ended
}

// HandOver implements controller.HandsOver. An instance that was stopped before it could
// begin passes on what it was given.
func (c *autoscalerController) HandOver() any { return c.remembered }

// adopt takes over what a predecessor knew of the autoscalers that still exist. The
// handlers have seen all of them by now.
func (c *autoscalerController) adopt(inherited memory) {
	c.selectors.adopt(inherited.selectors)
	c.histories = inherited.histories
	c.histories.keep(c.selectors.has)
	if c.clock.Since(inherited.at) > c.config.syncPeriod {
		c.histories.interrupt()
	}
}

// reconcile evaluates an autoscaler and sees to it that it is evaluated again.
func (c *autoscalerController) reconcile(ctx context.Context, key cache.ObjectName) error {
	began := c.clock.Now()
	hpa, err := c.autoscalers.HorizontalPodAutoscalers(key.Namespace).Get(key.Name)
	if isGone(err) {
		c.histories.forget(key)
		c.metrics.forget(key)
		return nil
	}
	if err != nil {
		return err
	}
	e := c.newEvaluation(key, hpa.DeepCopy(), began)
	err = e.run(ctx)
	c.metrics.reconciled(e.action, err, c.clock.Since(began))
	if err != nil {
		return err // the loop adds the key again, after the same delay
	}
	c.loop.AddRateLimited(key)
	return nil
}
