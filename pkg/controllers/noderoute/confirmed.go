package noderoute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// confirmed are the routes of a provider. One that no cached node needs is deleted only if a live read shows the same.
type confirmed struct {
	cloudprovider.Routes
	nodes typedcorev1.NodeInterface
	// round are the nodes that the library compares with the routes, or compared with them last.
	round atomic.Pointer[[]*corev1.Node]
}

// begin records the nodes of a round.
func (c *confirmed) begin(round []*corev1.Node) []*corev1.Node {
	c.round.Store(&round)
	return round
}

var errBehind = errors.New("the node has this range, which the cache does not show yet")

// DeleteRoute implements cloudprovider.Routes. If a node of the round has the range, what is wrong is the route itself.
func (c *confirmed) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	if round := c.round.Load(); route.Blackhole || route.TargetNode == "" || round != nil && isNeeded(route, *round) {
		return c.Routes.DeleteRoute(ctx, cluster, route)
	}
	live, err := c.read(ctx, string(route.TargetNode))
	if err != nil {
		return fmt.Errorf("checking whether node %s needs the route: %w", route.TargetNode, err)
	}
	for i := range live.Items {
		if isFor(route, &live.Items[i]) {
			return errBehind
		}
	}
	return c.Routes.DeleteRoute(ctx, cluster, route)
}

// read lists the nodes with a name: the role of this controller permits lists only.
func (c *confirmed) read(ctx context.Context, name string) (*corev1.NodeList, error) {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return c.nodes.List(ctx, metav1.ListOptions{FieldSelector: only})
}

// isNeeded reports whether a route leads to the range of one of the nodes.
func isNeeded(route *cloudprovider.Route, nodes []*corev1.Node) bool {
	return slices.ContainsFunc(nodes, func(node *corev1.Node) bool { return isFor(route, node) })
}

func isFor(route *cloudprovider.Route, node *corev1.Node) bool {
	return node.Name == string(route.TargetNode) && slices.Contains(node.Spec.PodCIDRs, route.DestinationCIDR)
}
