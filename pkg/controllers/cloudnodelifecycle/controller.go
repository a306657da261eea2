// Package cloudnodelifecycle deletes nodes whose instance the cloud does not have any more, and
// taints those whose instance is shut down.
//
// The model, in rules:
//
//  1. The controller is the published one, k8s.io/cloud-provider/controllers/nodelifecycle. In
//     rounds it asks the cloud about the nodes that are not ready. This package runs it, see
//     pkg/controllers/kit/cloud.
//  2. Rounds begin when the cache of nodes is complete.
//  3. A node is deleted by its UID and version: the one that the cloud was asked about, if a live
//     read shows that it has not become ready or got another provider ID since. The shutdown
//     taint is added and removed on the same conditions.
//  4. Without a provider that is linked into the program there is nothing to run. A provider
//     without instances leaves the controller idle.
//  5. A stop ends the round after the node that it is at. Nothing is handed over.
//
// Behaviour: docs/specs/cloud-node-lifecycle-controller.md.
package cloudnodelifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	"k8s.io/cloud-provider/names"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/cloud"
)

// Descriptor describes cloud-node-lifecycle-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           names.CloudNodeLifecycleController,
		Aliases:        []string{"cloud-node-lifecycle"},
		ServiceAccount: "node-controller",
		DeletesInBulk:  true,
		ClusterScoped:  true,
		EventSource:    names.CloudNodeLifecycleController,
		Requires:       []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("nodes")},
	}, configOf, newController)
}

// config is what the controller reads of the configuration. The zero value means that there is
// nothing to run.
type config struct {
	cloud.Config
	period time.Duration
}

func configOf(c *controller.Config) config {
	provider := cloud.ConfigOf(c)
	if !provider.Linked() {
		return config{}
	}
	return config{provider, c.Controllers.CloudNodeLifecycle.NodeMonitorPeriod.Duration}
}

// newController returns none if there is no provider.
func newController(env controller.Env, cfg config) (*cloud.Loop, error) {
	return cloud.New(env, cfg.Config, cfg.build)
}

func (c config) build(s *cloud.Session) ([]cloud.Part, error) {
	nodes := s.NodesInRounds(s.Judged)
	library, err := nodelifecycle.NewCloudNodeLifecycleController(nodes, s.Client, s.Cloud, c.period)
	if err != nil {
		return nil, err
	}
	return []cloud.Part{cloud.Library(library.Run)}, nil
}
