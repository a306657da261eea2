// Package endpoints maintains the v1 Endpoints of every Service that has a selector: the
// addresses, ready or not, and the ports of the pods the selector matches.
//
// The model, in rules:
//
//  1. The Endpoints of a Service have its namespace and name. Those of an ExternalName
//     Service and of one without selector are left alone; those of a Service that is gone are
//     deleted. Only a live read shows that it is gone.
//  2. What Endpoints should hold is decided without the API server: from pods to subsets (see
//     subsets), to their canonical form (see kit/subsets), cut to maxAddresses (see truncate).
//     What is stored already is not written.
//  3. There are two queues. Services are reconciled from endpoint. Changes of pods are
//     mapped to Services from a queue of their own; equal changes are mapped once.
//  4. A Service is not reconciled while the cache shows the Endpoints as they were before our
//     last write (see writes): the changes since would be lost. If the write had no answer, so that
//     they may be, or the cache shows them for long, they are written again even if they look right.
//  5. A deleted Endpoints object of a Service is created again; other changes of it by somebody else stay
//     until the next reconcile of the Service.
//  6. At the start, all Endpoints without a Service are deleted, unless they carry a leader
//     election record: their Service went while nobody watched. Those of ours that appear later
//     without a Service are deleted after ten minutes.
//  7. An instance inherits the memory of writes and of trigger times. The queues are not
//     inherited: every Service is replayed anyway, which makes replayed pods redundant.
//
// Behaviour: docs/specs/endpoints-controller.md.
package endpoints

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/services/podchanges"
)

// maxRetries is how often a key is retried before it waits for its next event.
const maxRetries = 15

// Descriptor describes endpoints-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "endpoints-controller",
		Aliases:        []string{"endpoint"},
		ServiceAccount: "endpoint-controller",
		EventSource:    "endpoint-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("services"),
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("endpoints"),
		},
	}, configOf, newController)
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
	controller.Env
	config config

	services  corelisters.ServiceLister
	endpoints corelisters.EndpointsLister
	selecting index.Services
	selected  index.SelectedPods

	memory *memory

	serviceLoop *reconcile.Loop[types.NamespacedName]
	podLoop     *reconcile.Loop[podchanges.Change]
	// The queues are the loops, except in tests.
	serviceQueue reconcile.Queue[types.NamespacedName]
	podQueue     reconcile.Queue[podchanges.Change]
}

func newController(env controller.Env, config config) (*endpointsController, error) {
	c := assemble(env, config)
	c.makeLoops(env)
	c.watch()
	return c, nil
}

// assemble makes a controller without queues and handlers.
func assemble(env controller.Env, config config) *endpointsController {
	core := env.Informers.Core().V1()
	services, pods, endpoints := core.Services(), core.Pods(), core.Endpoints()
	return &endpointsController{
		Env:       env,
		config:    config,
		selected:  index.NewSelectedPods(pods.Informer()),
		selecting: index.NewServices(services.Informer()),
		memory:    newMemory(),
		services:  services.Lister(),
		endpoints: endpoints.Lister(),
	}
}

// makeLoops makes the two queues. Upstream names only the first; the other is named so that it can be told apart in
// status.
func (c *endpointsController) makeLoops(env controller.Env) {
	c.serviceLoop = reconcile.New(env, reconcile.Options[types.NamespacedName]{
		Queue:      "endpoint",
		Workers:    c.config.concurrentSyncs,
		MaxRetries: maxRetries,
	}, c.reconcile)
	c.podLoop = reconcile.New(env, reconcile.Options[podchanges.Change]{
		Queue:      "endpoint_pods",
		Workers:    c.config.concurrentSyncs,
		MaxRetries: maxRetries,
	}, c.reconcilePodChange)
	c.serviceQueue, c.podQueue = c.serviceLoop, c.podLoop
}

// Run implements controller.Controller.
func (c *endpointsController) Run(ctx context.Context) error {
	return reconcile.Run(ctx, c.Env, c.begin, c.serviceLoop.Run, c.podLoop.Run)
}

// begin takes over what the predecessor remembered, and looks for what it left behind.
func (c *endpointsController) begin(context.Context) error {
	if left, ok := controller.TakeOver(c.Env, c); ok {
		c.memory = left
		c.queueForgotten()
	}
	return c.queueLeftovers()
}

// HandOver implements controller.HandsOver.
func (c *endpointsController) HandOver() *memory { return c.memory }
