// Package endpointslice maintains the EndpointSlices of every Service that has a
// selector: the addresses, ports, conditions and hints of the pods the selector matches.
//
// The model, in rules:
//
//  1. What the slices of a Service should hold, and the writes that get them there, are
//     decided by k8s.io/endpointslice. This package decides when to ask it, shows it a
//     state that is fit to decide on, and skips it when it has nothing to decide.
//  2. There are three queues. Services are reconciled from endpoint_slice. Changes of pods
//     are mapped to Services from a queue of their own, so that pod notifications never
//     wait for it; equal changes are mapped once. Changes of nodes are gathered in a
//     queue of one key.
//  3. Every slice this controller wrote or found at its start is tracked (see slicewrites).
//     A Service is not reconciled while the cache lacks one of those writes, but as soon
//     as it shows them, and a slice that somebody else changes or deletes gets its Service
//     reconciled.
//  4. A Service whose inputs are those of its last reconcile that had nothing to write is
//     not handed to the library again (see inputs).
//  5. The nodes are known before the first Service is reconciled: without them the hints
//     of Services in topology mode would be removed.
//  6. An instance inherits the writes of its predecessor that the caches do not show yet,
//     the times of the last changes, and the memory of hints. The queues are not inherited:
//     every Service is replayed anyway, which makes replayed pods, slices and nodes
//     redundant.
//  7. The slices of a deleted Service are left to garbage collection, those of one that
//     lost its selector or became ExternalName are left alone.
//
// Behaviour: specs/endpointslice-controller.md.
package endpointslice

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/endpointslice"
	"k8s.io/endpointslice/util"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	kcmdconfig "kcmd.dev/pkg/config"
	"kcmd.dev/pkg/controllers/kit/concurrent"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/podchanges"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/slicewrites"
)

// managedBy is the value of the managed-by label of our slices.
const managedBy = "endpointslice-controller.k8s.io"

// Descriptor describes endpointslice-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "endpointslice-controller",
		Aliases:        []string{"endpointslice"},
		Doc:            "Maintains the EndpointSlices of Services with selectors.",
		ServiceAccount: "endpointslice-controller",
		EventSource:    "endpoint-slice-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("services"),
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("nodes"),
			discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
		},
	}, configOf, build)
}

// config is the part of the configuration that the controller depends on.
type config struct {
	concurrentSyncs int           // Services, and as many changes of pods, worked on at once
	maxEndpoints    int32         // endpoints in a slice
	batchPeriod     time.Duration // for which changes of pods are gathered
	preferSame      bool          // the gate PreferSameTrafficDistribution
}

func configOf(c *controller.Config) config {
	block := c.Controllers.EndpointSlice
	return config{
		concurrentSyncs: int(*block.ConcurrentSyncs),
		maxEndpoints:    *block.MaxEndpointsPerSlice,
		batchPeriod:     block.EndpointUpdatesBatchPeriod.Duration,
		preferSame:      kcmdconfig.Enabled(c, kcmdconfig.PreferSameTrafficDistribution),
	}
}

type endpointSliceController struct {
	config      config
	clock       clock.PassiveClock
	client      kubernetes.Interface
	events      record.EventRecorder
	synced      func(context.Context) bool
	predecessor func() any

	services  corelisters.ServiceLister
	nodes     corelisters.NodeLister
	selecting index.Services
	selected  index.SelectedPods
	slices    index.EndpointSlices

	written  *slicewrites.Ledger
	inputs   *inputs
	topology *topology
	// triggers and reconciler are set at the start of Run.
	triggers   *util.TriggerTimeTracker
	reconciler *endpointslice.Reconciler

	serviceLoop  *reconcile.Loop[string]
	podLoop      *reconcile.Loop[podchanges.Change]
	topologyLoop *reconcile.Loop[string]
}

func build(env controller.Env, config config) (controller.Controller, error) {
	c, err := newController(env, config)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newController(env controller.Env, config config) (*endpointSliceController, error) {
	core := env.Informers.Core().V1()
	services, pods, nodes := core.Services(), core.Pods(), core.Nodes()
	slices := env.Informers.Discovery().V1().EndpointSlices()
	c := &endpointSliceController{
		config:      config,
		clock:       env.Clock,
		client:      env.Client,
		events:      env.Events,
		synced:      env.Informers.WaitUntilReady,
		predecessor: env.Predecessor,
		services:    services.Lister(),
		nodes:       nodes.Lister(),
		written:     slicewrites.New(managedBy, env.Clock),
		inputs:      newInputs(nodes.Lister()),
		topology:    &topology{nodes: nodes.Lister()},
	}
	var errs [3]error
	c.selecting, errs[0] = index.NewServices(services.Informer())
	c.selected, errs[1] = index.NewSelectedPods(pods.Informer())
	c.slices, errs[2] = index.NewEndpointSlices(slices.Informer())
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	registerMetrics(env.Metrics)
	c.makeLoops(env)
	return c, c.watch(services.Informer(), pods.Informer(), slices.Informer(), nodes.Informer())
}

// makeLoops makes the three queues. Upstream names only the first; the others are named
// so that they can be told apart in status.
func (c *endpointSliceController) makeLoops(env controller.Env) {
	c.serviceLoop = reconcile.New(env, reconcile.Options[string]{
		Queue:      "endpoint_slice",
		Workers:    c.config.concurrentSyncs,
		Backoff:    reconcile.Backoff[string](minRetryDelay, maxRetryDelay),
		MaxRetries: maxRetries,
	}, c.reconcile)
	c.podLoop = reconcile.New(env, reconcile.Options[podchanges.Change]{
		Queue:      "endpoint_slice_pods",
		Workers:    c.config.concurrentSyncs,
		MaxRetries: maxRetries,
	}, c.reconcilePodChange)
	c.topologyLoop = reconcile.New(env, reconcile.Options[string]{
		Queue:   "endpoint_slice_topology",
		Workers: 1,
	}, c.reconcileTopology)
}

// Run implements controller.Controller.
func (c *endpointSliceController) Run(ctx context.Context) error {
	defer resetGauges()
	if !c.synced(ctx) {
		return nil
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	return concurrent.Run(ctx, c.serviceLoop.Run, c.podLoop.Run, c.topologyLoop.Run)
}

// begin does what has to be done before the first Service is reconciled.
func (c *endpointSliceController) begin(ctx context.Context) error {
	if err := c.inherit(); err != nil {
		return err
	}
	c.reconciler = endpointslice.NewReconciler(c.client, c.nodes, c.config.maxEndpoints,
		c.written.Tracker, c.topology.cache, c.events, managedBy,
		endpointslice.WithPreferSameTrafficDistributionEnabled(c.config.preferSame))
	return c.topology.refresh(ctx)
}

// reconcile brings the slices of one Service to their desired state.
func (c *endpointSliceController) reconcile(ctx context.Context, key string) error {
	err := c.sync(ctx, key)
	countSync(err)
	if errors.Is(err, slicewrites.ErrStaleCache) {
		return reconcile.Requeue(err)
	}
	return err
}

func (c *endpointSliceController) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return fmt.Errorf("reading the key of a Service: %w", err)
	}
	service, err := c.services.Services(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		c.forget(key, namespace, name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking up Service %s: %w", key, err)
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName || service.Spec.Selector == nil {
		return nil
	}

	pods, err := c.selected.By(namespace, service.Spec.Selector)
	if err != nil {
		c.warn(service, reasonListPods, "listing Pods", err)
		return fmt.Errorf("listing pods of Service %s: %w", key, err)
	}
	slices, err := c.slices.Of(namespace, name)
	if err != nil {
		c.warn(service, reasonListSlices, "listing Endpoint Slices", err)
		return fmt.Errorf("listing EndpointSlices of Service %s: %w", key, err)
	}
	id := types.NamespacedName{Namespace: namespace, Name: name}
	slices = c.written.Current(slices)
	if c.written.Stale(ctx, id, slices) {
		return slicewrites.ErrStaleCache
	}

	// Computing the time also remembers it, so it comes before the decision to skip.
	triggerTime := c.triggers.ComputeEndpointLastChangeTriggerTime(namespace, service, pods)
	digest := c.inputs.digest(service, pods, slices, c.topology.epoch.Load())
	if c.inputs.settled(key, digest) {
		return nil
	}
	err = c.reconciler.Reconcile(klog.FromContext(ctx), service, pods, slicewrites.Sortable(slices), triggerTime)
	if err != nil {
		c.warn(service, reasonUpdateSlices, "updating Endpoint Slices", err)
		return fmt.Errorf("updating EndpointSlices of Service %s: %w", key, err)
	}
	if c.written.Shown(id, slices) {
		c.inputs.settle(key, digest)
	}
	return nil
}

// reconcilePodChange queues the Services that a change of a pod concerns.
func (c *endpointSliceController) reconcilePodChange(_ context.Context, change podchanges.Change) error {
	concerned, err := change.Concerned(c.selecting)
	if err != nil {
		return err
	}
	for key := range concerned {
		c.serviceLoop.AddAfter(key, c.config.batchPeriod)
	}
	return nil
}

// forget drops what is remembered of a Service that is gone.
func (c *endpointSliceController) forget(key, namespace, name string) {
	c.triggers.DeleteService(namespace, name)
	c.reconciler.DeleteService(namespace, name)
	c.written.Forget(types.NamespacedName{Namespace: namespace, Name: name})
	c.topology.forgetService(key)
	c.inputs.forget(key)
}
