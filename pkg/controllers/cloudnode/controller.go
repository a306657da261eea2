// Package cloudnode initializes the nodes of a cloud: provider ID, labels, addresses. Until then
// a node has a taint that keeps pods away. Later it keeps the addresses as the cloud has them.
//
// The model, in rules:
//
//  1. The controller is the published one, k8s.io/cloud-provider/controllers/node. It decides what
//     is written to a node. This package runs it, see pkg/controllers/kit/cloud.
//  2. Addresses are compared in rounds, and a round asks the cloud about every node. The library
//     makes one whenever it starts. Here rounds are begun by this package, so that an instance
//     that follows another one in this process begins with the next round that is due. When the
//     last one began is handed over. One that a stop cut short does not count, nor does one that
//     another provider was asked in, or the same with another file.
//  3. Without a provider that is linked into the program there is nothing to run. A provider
//     without instances leaves the controller idle.
//
// Behaviour: docs/specs/cloud-node-controller.md.
package cloudnode

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/names"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/cloud"
)

// Descriptor describes cloud-node-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           names.CloudNodeController,
		Aliases:        []string{"cloud-node"},
		ServiceAccount: "node-controller",
		ClusterScoped:  true,
		EventSource:    names.CloudNodeController,
		Requires:       []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("nodes")},
	}, configOf, newController)
}

// config is what the controller reads of the configuration. The zero value means that there is
// nothing to run.
type config struct {
	cloud.Config
	workers, statusWorkers int32
	period                 time.Duration
}

func configOf(c *controller.Config) config {
	provider := cloud.ConfigOf(c)
	if !provider.Linked() {
		return config{}
	}
	block := c.Controllers.CloudNode
	cfg := config{
		Config:        provider,
		workers:       *block.ConcurrentSyncs,
		statusWorkers: *block.ConcurrentStatusUpdates,
		period:        block.NodeStatusUpdateFrequency.Duration,
	}
	if cfg.statusWorkers == 0 {
		cfg.statusWorkers = cfg.workers
	}
	return cfg
}

type nodeController struct {
	controller.Env
	config config
	loop   *cloud.Loop
	rounds rounds
}

// newController returns none if there is no provider.
func newController(env controller.Env, cfg config) (*nodeController, error) {
	c := &nodeController{Env: env, config: cfg, rounds: rounds{passed: make(chan struct{})}}
	loop, err := cloud.New(env, cfg.Config, c.build)
	if err != nil || loop == nil {
		return nil, err
	}
	c.loop = loop
	return c, nil
}

// Run implements controller.Controller.
func (c *nodeController) Run(ctx context.Context) error {
	if left, ok := controller.TakeOver(c.Env, c); ok && left.source == c.loop.Source() {
		c.rounds.last = left.last
	}
	return c.loop.Run(ctx)
}

// handover is what is handed over: when the last round began, and which provider was asked.
type handover struct {
	last   time.Time
	source cloud.Source
}

// HandOver implements controller.HandsOver.
func (c *nodeController) HandOver() handover { return handover{c.rounds.last, c.loop.Source()} }

var errNoInstances = errors.New("cloud provider does not support instances")

func (c *nodeController) build(s *cloud.Session) ([]cloud.Part, error) {
	_, former := s.Cloud.Instances()
	if _, ok := s.Cloud.InstancesV2(); !ok && !former {
		return nil, errNoInstances
	}
	nodes := s.NodesInRounds(c.rounds.list)
	library, err := node.NewCloudNodeController(nodes, s.Client, s.Cloud, never, c.config.workers, c.config.statusWorkers)
	if err != nil {
		return nil, err
	}
	return []cloud.Part{
		cloud.Library(library.RunWithContext),
		func(ctx context.Context) error {
			c.rounds.run(ctx, c.Clock, c.config.period, library.UpdateNodeStatus)
			return nil
		},
	}, nil
}
