// Package servicelb keeps a load balancer of the cloud for each Service of type LoadBalancer,
// and writes its addresses into the status of the Service.
//
// The model, in rules:
//
//  1. The controller is the published one, k8s.io/cloud-provider/controllers/service. It decides
//     what the provider is asked for, and what is written. This package runs it, see
//     pkg/controllers/kit/cloud.
//  2. Without a provider that is linked into the program there is nothing to run. A provider
//     without load balancers leaves the controller idle.
//  3. An instance asks for the load balancer of every Service when it starts, which a provider
//     answers from what there is. What is handed over are the Services that may have one: if one
//     is gone by then, its load balancer still has to be deleted, and nothing else names it. So
//     are the nodes behind them: the cache may lack some that exist.
//
// Behaviour: docs/specs/service-lb-controller.md.
package servicelb

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/cloud-provider/controllers/service"
	"k8s.io/cloud-provider/names"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/cloud"
)

// Descriptor describes service-lb-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           names.ServiceLBController,
		Aliases:        []string{"service"},
		ServiceAccount: "service-controller",
		EventSource:    "service-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("services"),
			corev1.SchemeGroupVersion.WithResource("nodes"),
		},
	}, configOf, newController)
}

// config is what the controller reads of the configuration. The zero value means that there is
// nothing to run.
type config struct {
	cloud.Config
	cluster string
	workers int
}

func configOf(c *controller.Config) config {
	provider := cloud.ConfigOf(c)
	if !provider.Linked() {
		return config{}
	}
	return config{provider, c.Cloud.ClusterName, int(*c.Controllers.ServiceLB.ConcurrentSyncs)}
}

type balancerController struct {
	controller.Env
	config config
	loop   *cloud.Loop
	// session is nil before the library was made. left is what the former instance left.
	session *cloud.Session
	left    cloud.Left
}

// newController returns none if there is no provider.
func newController(env controller.Env, cfg config) (*balancerController, error) {
	if cfg.Linked() {
		env.Informers.Core().V1().Services().Informer()
	}
	c := &balancerController{Env: env, config: cfg}
	loop, err := cloud.New(env, cfg.Config, c.build)
	if err != nil || loop == nil {
		return nil, err
	}
	c.loop = loop
	return c, nil
}

// Run implements controller.Controller.
func (c *balancerController) Run(ctx context.Context) error {
	c.left, _ = controller.TakeOver(c.Env, c)
	return c.loop.Run(ctx)
}

// HandOver implements controller.HandsOver.
func (c *balancerController) HandOver() cloud.Left {
	if c.session == nil {
		return c.left
	}
	return c.session.Leave()
}

var errNoBalancers = errors.New("the cloud provider does not support external load balancers")

func (c *balancerController) build(s *cloud.Session) ([]cloud.Part, error) {
	// Asked here, since the library has started its queues when it asks.
	if _, ok := s.Cloud.LoadBalancer(); !ok {
		return nil, errNoBalancers
	}
	library, err := service.New(s.Cloud, s.Client, s.Services(), s.Hosts(), c.config.cluster, utilfeature.DefaultFeatureGate)
	if err != nil {
		return nil, err
	}
	s.Inherit(c.left)
	c.session, c.left = s, cloud.Left{}
	run := cloud.Library(func(ctx context.Context, m *cloud.Metrics) { library.Run(ctx, c.config.workers, m) })
	return []cloud.Part{run, s.ConfirmHosts}, nil
}
