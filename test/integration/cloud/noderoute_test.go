package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

func withRanges(ranges ...string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = ranges[0], ranges }
}

// waitForRoutes waits until a node has routes for just these ranges.
func waitForRoutes(t *testing.T, node string, want ...string) {
	t.Helper()
	await.That(t, "the routes to "+node, func(context.Context) error {
		got := memory.Routes(node)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("they are %v, want %v", got, want)
		}
		return nil
	})
}

func networkCondition(want string) func(*corev1.Node) error {
	return func(n *corev1.Node) error {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeNetworkUnavailable {
				if got := fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message); got != want {
					return fmt.Errorf("the condition is %q", got)
				}
				return nil
			}
		}
		return errors.New("there is no condition")
	}
}

// Pins ROUTE-2, ROUTE-10, ROUTE-12, ROUTE-13, ROUTE-14 and ROUTE-17.
func TestRoutesFollowTheRangesOfNodes(t *testing.T) {
	t.Parallel()
	createNode(t, "routed", corev1.ConditionTrue, withRanges("10.244.7.0/24", "fd00:244:0:7::/64"))
	waitForRoutes(t, "routed", "10.244.7.0/24", "fd00:244:0:7::/64")
	waitForNode(t, "routed", "its network is available", networkCondition("False RouteCreated: RouteController created a route"))
	must.Succeed(t, admin.CoreV1().Nodes().Delete(t.Context(), "routed", metav1.DeleteOptions{}))
	waitForRoutes(t, "routed")
}

// Pins ROUTE-7, ROUTE-16 and ROUTE-18.
func TestRouteThatCannotBeCreatedIsRetried(t *testing.T) {
	t.Parallel()
	memory.Fail("CreateRoute unreachable", errors.New("the table is full"))
	node := createNode(t, "unreachable", corev1.ConditionTrue, withRanges("10.244.8.0/24"))
	waitForNode(t, "unreachable", "its network is not available", networkCondition("True NoRouteCreated: RouteController failed to create a route"))
	begin := "route_controller Warning FailedToCreateRoute: Could not create route " + string(node.UID) + " 10.244.8.0/24 for node unreachable after "
	await.That(t, "the event is there", func(ctx context.Context) error {
		events, err := cluster.EventsOf(ctx, "", node.UID)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(events, func(e string) bool { return strings.HasPrefix(e, begin) && strings.HasSuffix(e, ": the table is full") }) {
			return fmt.Errorf("the events are %q", events)
		}
		return nil
	})
	memory.Fail("CreateRoute unreachable", nil)
	waitForRoutes(t, "unreachable", "10.244.8.0/24")
	waitForNode(t, "unreachable", "its network is available", networkCondition("False RouteCreated: RouteController created a route"))
}
