// Package endpoints maintains the v1 Endpoints of every Service that has a selector: the
// addresses, ready or not, and the ports of the pods the selector matches.
//
// The model, in rules:
//
//  1. The Endpoints of a Service have its namespace and name. Those of an ExternalName
//     Service and of one without selector are left alone; those of a Service that is gone are
//     deleted. That it is gone is what the API server says, not a cache.
//  2. What Endpoints should hold is decided without the API server: from pods to subsets (see
//     subsets), to their canonical form (see kit/subsets), cut to maxAddresses (see truncate).
//     What is stored already is not written.
//  3. There are two queues. Services are reconciled from endpoint. Changes of pods are
//     mapped to Services from a queue of their own; equal changes are mapped once.
//  4. A Service is not reconciled while the cache shows the Endpoints as they were before our
//     last write (see writes): the changes since would be lost.
//  5. A deleted Endpoints object of a Service is made again; other changes of it by somebody else stay
//     until the next reconcile of the Service.
//  6. At the start, all Endpoints without a Service are deleted, unless they carry a leader
//     election record: their Service went while nobody watched.
//  7. An instance inherits the memory of writes and of trigger times. The queues are not
//     inherited: every Service is replayed anyway, which makes replayed pods redundant.
//
// Behaviour: specs/endpoints-controller.md.
package endpoints

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/endpointslice/util"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/concurrent"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/podchanges"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// maxRetries is how often a key is retried before it waits for its next event.
const maxRetries = 15

// Descriptor describes endpoints-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "endpoints-controller",
		Aliases:        []string{"endpoint"},
		Doc:            "Maintains the Endpoints of Services with selectors.",
		ServiceAccount: "endpoint-controller",
		EventSource:    "endpoint-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("services"),
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("endpoints"),
		},
	}, configOf, build)
}

// config is the part of the configuration that the controller depends on.
type config struct {
	concurrentSyncs int           // Services, and as many changes of pods, worked on at once
	batchPeriod     time.Duration // for which changes of pods are gathered
}

func configOf(c *controller.Config) config {
	block := c.Controllers.Endpoints
	return config{
		concurrentSyncs: int(*block.ConcurrentSyncs),
		batchPeriod:     block.EndpointUpdatesBatchPeriod.Duration,
	}
}

type endpointsController struct {
	config      config
	client      kubernetes.Interface
	events      record.EventRecorder
	clock       clock.PassiveClock
	synced      func(context.Context) bool
	predecessor func() any

	services  corelisters.ServiceLister
	endpoints corelisters.EndpointsLister
	selecting index.Services
	selected  index.SelectedPods

	// memory is set at the start of Run.
	memory *memory

	serviceLoop *reconcile.Loop[string]
	podLoop     *reconcile.Loop[podchanges.Change]
}

func build(env controller.Env, config config) (controller.Controller, error) {
	c, err := newController(env, config)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newController(env controller.Env, config config) (*endpointsController, error) {
	core := env.Informers.Core().V1()
	services, pods, endpoints := core.Services(), core.Pods(), core.Endpoints()
	c := &endpointsController{
		config:      config,
		client:      env.Client,
		events:      env.Events,
		clock:       env.Clock,
		synced:      env.Informers.WaitUntilReady,
		predecessor: env.Predecessor,
		services:    services.Lister(),
		endpoints:   endpoints.Lister(),
	}
	var errs [2]error
	c.selecting, errs[0] = index.NewServices(services.Informer())
	c.selected, errs[1] = index.NewSelectedPods(pods.Informer())
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	// Upstream names only the first queue; the other is named so that it can be told apart
	// in status.
	c.serviceLoop = reconcile.New(env, reconcile.Options[string]{
		Queue:      "endpoint",
		Workers:    config.concurrentSyncs,
		MaxRetries: maxRetries,
	}, c.reconcile)
	c.podLoop = reconcile.New(env, reconcile.Options[podchanges.Change]{
		Queue:      "endpoint_pods",
		Workers:    config.concurrentSyncs,
		MaxRetries: maxRetries,
	}, c.reconcilePodChange)
	return c, c.watch(services.Informer(), pods.Informer(), endpoints.Informer())
}

// Run implements controller.Controller.
func (c *endpointsController) Run(ctx context.Context) error {
	if !c.synced(ctx) {
		return nil
	}
	c.memory = inherited(c.predecessor())
	if err := c.queueLeftovers(); err != nil {
		return err
	}
	return concurrent.Run(ctx, c.serviceLoop.Run, c.podLoop.Run)
}

// HandOver implements controller.HandsOver.
func (c *endpointsController) HandOver() any {
	if c.memory == nil {
		return c.predecessor() // Run ended before it began.
	}
	return c.memory
}

// reconcile brings the Endpoints of one Service to their desired state.
func (c *endpointsController) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return fmt.Errorf("reading the key of a Service: %w", err)
	}
	service, err := c.services.Services(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return c.remove(ctx, key, namespace, name)
	}
	if err != nil {
		return fmt.Errorf("looking up Service %s: %w", key, err)
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName || service.Spec.Selector == nil {
		return nil
	}

	pods, err := c.selected.By(namespace, service.Spec.Selector)
	if err != nil {
		return fmt.Errorf("listing pods of Service %s: %w", key, err)
	}
	// Computing the time also remembers it, so it comes before the look at the cache.
	triggerTime := c.memory.triggers.ComputeEndpointLastChangeTriggerTime(namespace, service, pods)
	current, err := c.endpoints.Endpoints(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return c.create(ctx, key, service, newContents(service, pods).applied(nil, triggerTime))
	}
	if err != nil {
		return fmt.Errorf("looking up Endpoints %s: %w", key, err)
	}
	if c.memory.outdated(key, current.ResourceVersion, c.clock.Now()) {
		return reconcile.Requeue(fmt.Errorf(
			"endpoints informer cache is out of date, resource version %s already processed for endpoints %s",
			current.ResourceVersion, key))
	}
	wanted := newContents(service, pods)
	if wanted.stored(current) {
		return nil
	}
	return c.update(ctx, key, current, wanted.applied(current, triggerTime))
}

// reconcilePodChange queues the Services that a change of a pod concerns.
func (c *endpointsController) reconcilePodChange(_ context.Context, change podchanges.Change) error {
	concerned, err := change.Concerned(c.selecting)
	if err != nil {
		return err
	}
	for key := range concerned {
		c.serviceLoop.AddAfter(key, c.config.batchPeriod)
	}
	return nil
}

// inherited is what the predecessor remembered, or the beginnings of an instance without one.
func inherited(left any) *memory {
	if m, ok := left.(*memory); ok {
		return m
	}
	return &memory{triggers: util.NewTriggerTimeTracker(), replaced: map[string]replacement{}, created: map[string]bool{}}
}
