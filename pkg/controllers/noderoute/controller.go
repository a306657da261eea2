// Package noderoute keeps routes of the cloud, so that each address range of pods leads to the
// node that has it, and the condition of nodes that says so.
//
// The model, in rules:
//
//  1. The controller is the published one, k8s.io/cloud-provider/controllers/route. It compares
//     all routes with all nodes in rounds. This package runs it, see pkg/controllers/kit/cloud.
//  2. A round begins a period after the one before began, or, with the gate
//     CloudControllerManagerWatchBasedRoutesReconciliation, when something about a node has
//     changed that routes depend on. The library reads the gate of the process, which the
//     instance sets to that of its configuration before it makes the controller. With the gate, this
//     package also begins a round after one in which something has failed.
//  3. Without a provider that is linked into the program, or without ranges of the cluster, there
//     is nothing to run. A provider without routes leaves the controller idle.
//  4. A route is deleted because no node needs it only after a live read of the node that it leads to: the cache
//     may be behind what a former instance knew.
//  5. Nothing is remembered from round to round, and nothing is handed over.
//
// Behaviour: docs/specs/node-route-controller.md.
package noderoute

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/controllers/route"
	"k8s.io/cloud-provider/names"
	_ "k8s.io/controller-manager/pkg/features/register" // the library panics if it does not know its gate

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/cloud"
)

// Descriptor describes node-route-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           names.NodeRouteController,
		Aliases:        []string{"route"},
		ServiceAccount: "route-controller",
		ClusterScoped:  true,
		EventSource:    "route_controller",
		Requires:       []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("nodes")},
	}, configOf, newController)
}

// maxRanges is how many ranges the cluster can have: one of each IP family.
const maxRanges = 2

// config is what the controller reads of the configuration. The zero value means that there is
// nothing to run.
type config struct {
	cloud.Config
	cluster string
	ranges  [maxRanges]string
	period  time.Duration
	// watches is set if rounds begin with changes of nodes, and not every period.
	watches bool
}

func configOf(c *controller.Config) config {
	provider := cloud.ConfigOf(c)
	if !provider.Linked() || len(c.Networking.ClusterCIDRs) == 0 {
		return config{}
	}
	cfg := config{
		Config:  provider,
		cluster: c.Cloud.ClusterName,
		period:  c.Controllers.NodeRoute.ReconciliationPeriod.Duration,
		watches: gates.Enabled(c, gates.CloudWatchBasedRoutes),
	}
	for i, cidr := range c.Networking.ClusterCIDRs[:min(len(c.Networking.ClusterCIDRs), maxRanges)] {
		cfg.ranges[i] = v1beta1.Network(cidr)
	}
	return cfg
}

// newController returns none if there is no provider, or no range.
func newController(env controller.Env, cfg config) (*cloud.Loop, error) {
	ranges, err := parse(cfg.ranges)
	if err != nil {
		return nil, err
	}
	return cloud.New(env, cfg.Config, func(s *cloud.Session) ([]cloud.Part, error) { return cfg.build(s, ranges) })
}

func parse(texts [maxRanges]string) ([]*net.IPNet, error) {
	var ranges []*net.IPNet
	for _, text := range texts {
		if text == "" {
			continue
		}
		_, parsed, err := net.ParseCIDR(text)
		if err != nil {
			return nil, fmt.Errorf("reading a range of the cluster: %w", err)
		}
		ranges = append(ranges, parsed)
	}
	return ranges, nil
}

var errNoRoutes = errors.New("the cloud provider does not support routes")

func (c config) build(s *cloud.Session, ranges []*net.IPNet) ([]cloud.Part, error) {
	routes, ok := s.Cloud.Routes()
	if !ok {
		return nil, errNoRoutes
	}
	gate := map[string]bool{gates.CloudWatchBasedRoutes: c.watches}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gate); err != nil {
		return nil, fmt.Errorf("setting the feature gates of the library: %w", err)
	}
	checked := &confirmed{Routes: routes, nodes: s.Client.CoreV1().Nodes()}
	nodes := s.NodesInRounds(func(round []*corev1.Node) []*corev1.Node { return s.Judged(checked.begin(round)) })
	client, routes := s.Client, cloudprovider.Routes(checked)
	if c.watches {
		var repeated again
		nodes, client, routes = repeated.nodes(nodes), repeated.client(client), repeated.routes(routes)
	}
	library, err := route.New(routes, client, nodes, c.cluster, ranges)
	if err != nil {
		return nil, err
	}
	return []cloud.Part{cloud.Library(func(ctx context.Context, m *cloud.Metrics) { library.Run(ctx, c.period, m) })}, nil
}
