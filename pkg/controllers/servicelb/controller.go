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
//  3. Nothing is handed over. An instance asks for the load balancer of every Service when it
//     starts, which a provider answers from what there is.
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

// newController returns none if there is no provider.
func newController(env controller.Env, cfg config) (*cloud.Loop, error) {
	if cfg.Linked() {
		env.Informers.Core().V1().Services().Informer()
	}
	return cloud.New(env, cfg.Config, cfg.build)
}

var errNoBalancers = errors.New("the cloud provider does not support external load balancers")

func (c config) build(s *cloud.Session) ([]cloud.Part, error) {
	// Asked here, since the library has started its queues when it asks.
	if _, ok := s.Cloud.LoadBalancer(); !ok {
		return nil, errNoBalancers
	}
	library, err := service.New(s.Cloud, s.Client, s.Services(), s.Hosts(), c.cluster, utilfeature.DefaultFeatureGate)
	if err != nil {
		return nil, err
	}
	run := cloud.Library(func(ctx context.Context, m *cloud.Metrics) { library.Run(ctx, c.workers, m) })
	return []cloud.Part{run, s.ConfirmHosts}, nil
}
