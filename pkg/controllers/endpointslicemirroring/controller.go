// Package endpointslicemirroring copies Endpoints that users manage, those of Services
// without selector, into EndpointSlices, so that whoever reads only slices sees them.
//
// The model, in rules:
//
//  1. Endpoints are mirrored while their Service exists and has no selector. Those labelled
//     skip-mirror and those that are leader election records are not mirrored.
//  2. What is not mirrored has no slices of this controller: they are deleted. That it is
//     not is what the API server says in the end, not a cache.
//  3. Canonical subsets (see kit/subsets) make groups: one for each subset and family of
//     addresses. A group has one slice, and without valid addresses none. Of a subset at
//     most maxEndpoints addresses are mirrored, ready ones first (see desired).
//  4. From the groups and the slices there are, a plan is made without the API server (see
//     plan): which slices to create, overwrite and delete. Slices as they should be are left.
//  5. Every slice this controller wrote, or found to be right, is tracked (see
//     kit/slicewrites). Endpoints are not mirrored while the cache lacks one of those writes,
//     but as soon as it shows them; a slice that somebody else changes or deletes gets its
//     Endpoints mirrored again.
//  6. Replayed slices are queued too: only they lead to slices of Endpoints that stopped
//     being mirrored while nobody watched.
//  7. An instance inherits the writes of its predecessor that the caches do not show yet.
//
// Behaviour: specs/endpointslice-mirroring-controller.md.
package endpointslicemirroring

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/slicewrites"
)

// managedBy is the value of the managed-by label of our slices.
const managedBy = "endpointslicemirroring-controller.k8s.io"

// Descriptor describes endpointslice-mirroring-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "endpointslice-mirroring-controller",
		Aliases:        []string{"endpointslicemirroring"},
		Doc:            "Copies Endpoints that users manage into EndpointSlices.",
		ServiceAccount: "endpointslicemirroring-controller",
		EventSource:    "endpoint-slice-mirroring-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("services"),
			corev1.SchemeGroupVersion.WithResource("endpoints"),
			discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
		},
	}, configOf, build)
}

// config is the part of the configuration that the controller depends on.
type config struct {
	concurrentSyncs int           // Endpoints mirrored at once
	maxEndpoints    int           // addresses mirrored of a subset
	batchPeriod     time.Duration // for which changes of slices are gathered
}

func configOf(c *controller.Config) config {
	block := c.Controllers.EndpointSliceMirroring
	return config{
		concurrentSyncs: int(*block.ConcurrentSyncs),
		maxEndpoints:    int(*block.MaxEndpointsPerSubset),
		batchPeriod:     block.EndpointUpdatesBatchPeriod.Duration,
	}
}

type mirroringController struct {
	config      config
	clock       clock.PassiveClock
	client      kubernetes.Interface
	events      record.EventRecorder
	metrics     *metricSet
	synced      func(context.Context) bool
	predecessor func() any

	cached    source
	endpoints corelisters.EndpointsLister
	slices    index.EndpointSlices

	written *slicewrites.Ledger
	began   bool // set at the start of Run
	loop    *reconcile.Loop[string]
}

func build(env controller.Env, config config) (controller.Controller, error) {
	c, err := newController(env, config)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newController(env controller.Env, config config) (*mirroringController, error) {
	core := env.Informers.Core().V1()
	services, endpoints := core.Services(), core.Endpoints()
	slices := env.Informers.Discovery().V1().EndpointSlices()
	byService, err := index.NewEndpointSlices(slices.Informer())
	if err != nil {
		return nil, err
	}
	c := &mirroringController{
		config:      config,
		clock:       env.Clock,
		client:      env.Client,
		events:      env.Events,
		metrics:     newMetrics(env.Metrics),
		synced:      env.Informers.WaitUntilReady,
		predecessor: env.Predecessor,
		endpoints:   endpoints.Lister(),
		slices:      byService,
		written:     slicewrites.New(managedBy, env.Clock),
	}
	c.cached = cachedSource(services.Lister(), endpoints.Lister())
	c.loop = reconcile.New(env, reconcile.Options[string]{
		Queue:      "endpoint_slice_mirroring",
		Workers:    config.concurrentSyncs,
		Backoff:    reconcile.Backoff[string](minRetryDelay, maxRetryDelay),
		MaxRetries: maxRetries,
	}, c.reconcile)
	return c, c.watch(services.Informer(), endpoints.Informer(), slices.Informer())
}

// Run implements controller.Controller.
func (c *mirroringController) Run(ctx context.Context) error {
	if !c.synced(ctx) {
		return nil
	}
	if err := c.inherit(); err != nil {
		return err
	}
	c.began = true
	return c.loop.Run(ctx)
}

// reconcile brings the mirrored slices of the Endpoints of one Service to their desired state.
func (c *mirroringController) reconcile(ctx context.Context, key string) error {
	began := c.clock.Now()
	defer func() { c.metrics.syncDuration.Observe(c.clock.Since(began).Seconds()) }()

	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return fmt.Errorf("reading the key of Endpoints: %w", err)
	}
	id := types.NamespacedName{Namespace: namespace, Name: name}
	endpoints, err := mirrored(id, c.cached)
	if err != nil {
		return err
	}
	cached, err := c.slices.Of(namespace, name)
	if err != nil {
		return fmt.Errorf("listing EndpointSlices of Endpoints %s: %w", key, err)
	}
	slices := c.written.Current(cached)
	if endpoints == nil {
		return c.cleanUp(ctx, id, slices)
	}
	if c.written.Stale(ctx, id, slices) {
		return reconcile.Requeue(slicewrites.ErrStaleCache)
	}
	return c.mirror(ctx, id, endpoints, slices)
}

// source reads the Endpoints and the Service of a name, from the caches or from the API server.
type source struct {
	endpoints func(id types.NamespacedName) (*corev1.Endpoints, error)
	service   func(id types.NamespacedName) (*corev1.Service, error)
}

// mirrored returns Endpoints that are to be mirrored, nil if there are none or they are not.
func mirrored(id types.NamespacedName, from source) (*corev1.Endpoints, error) {
	endpoints, err := from.endpoints(id)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up Endpoints %s: %w", id, err)
	}
	if !mirrorable(endpoints) {
		return nil, nil
	}
	service, err := from.service(id)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up Service %s: %w", id, err)
	}
	if service.Spec.Selector != nil {
		return nil, nil
	}
	return endpoints, nil
}

func cachedSource(services corelisters.ServiceLister, endpoints corelisters.EndpointsLister) source {
	return source{
		endpoints: func(id types.NamespacedName) (*corev1.Endpoints, error) {
			return endpoints.Endpoints(id.Namespace).Get(id.Name)
		},
		service: func(id types.NamespacedName) (*corev1.Service, error) {
			return services.Services(id.Namespace).Get(id.Name)
		},
	}
}

func (c *mirroringController) live(ctx context.Context) source {
	return source{
		endpoints: func(id types.NamespacedName) (*corev1.Endpoints, error) {
			return c.client.CoreV1().Endpoints(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
		},
		service: func(id types.NamespacedName) (*corev1.Service, error) {
			return c.client.CoreV1().Services(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
		},
	}
}

// mirrorable says whether nothing in the Endpoints speaks against mirroring them.
func mirrorable(endpoints *corev1.Endpoints) bool {
	_, isLock := endpoints.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]
	return !isLock && endpoints.Labels[discoveryv1.LabelSkipMirror] != "true"
}

// mirror brings slices to what the Endpoints say.
func (c *mirroringController) mirror(ctx context.Context, id types.NamespacedName, endpoints *corev1.Endpoints, slices []*discoveryv1.EndpointSlice) error {
	groups, skipped := desiredGroups(endpoints, c.config.maxEndpoints)
	c.warnSkipped(endpoints, skipped)
	c.metrics.addressesSkipped.Observe(float64(skipped.total))

	plan := newPlan(endpoints, groups, slices)
	for _, slice := range plan.unchanged {
		if !c.written.Tracker.Has(slice) {
			c.written.Tracker.Update(slice)
		}
	}
	c.metrics.observe(plan)
	c.metrics.totals.set(id, plan.totals(len(groups)))
	return c.apply(ctx, endpoints, plan)
}
