package noderoute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// confirmed are the routes of a provider. One that no cached node needs is deleted only if a live read shows the same.
type confirmed struct {
	cloudprovider.Routes
	nodes typedcorev1.NodeInterface
	// tries are the attempts to read a node.
	tries wait.Backoff
	// round are the nodes that the library compares with the routes, or compared with them last.
	round atomic.Pointer[[]*corev1.Node]
}

var (
	once = wait.Backoff{Steps: 1}
	// patient takes half a minute to a minute. It is for rounds that begin with changes of nodes: the next one may be
	// hours away, and a round that fails in part is not repeated.
	patient = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 1, Steps: 6}
)

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
func (c *confirmed) read(ctx context.Context, name string) (live *corev1.NodeList, err error) {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	var last error
	err = wait.ExponentialBackoffWithContext(ctx, c.tries, func(ctx context.Context) (bool, error) {
		live, last = c.nodes.List(ctx, metav1.ListOptions{FieldSelector: only})
		return last == nil, nil
	})
	return live, cmp.Or(last, err)
}

// isNeeded reports whether a route leads to the range of one of the nodes.
func isNeeded(route *cloudprovider.Route, nodes []*corev1.Node) bool {
	return slices.ContainsFunc(nodes, func(node *corev1.Node) bool { return isFor(route, node) })
}

func isFor(route *cloudprovider.Route, node *corev1.Node) bool {
	return node.Name == string(route.TargetNode) && slices.Contains(node.Spec.PodCIDRs, route.DestinationCIDR)
}
