// Package heartbeats tests what becomes of nodes that fall silent, and of their pods: with one
// node, with zones, and when it is the manager that hears nothing.
//
//  1. Kubelets are played by the tests: a node is an object, and a Lease that is renewed. A
//     node that falls silent is one whose Lease is not.
//  2. Each test has the cluster for itself, since states of zones concern all nodes, and
//     a manager of its own, which reaches the API server through a proxy. The kubelets do not.
//  3. The clock of the manager runs fast, and that of the kubelets with it: see
//     harness.FastClock. All times here are by that clock.
package heartbeats

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const (
	lifecycle = "node-lifecycle-controller"
	// grace and period are the defaults.
	grace  = 50 * time.Second
	period = 5 * time.Second
)

var (
	plane *controlplane.ControlPlane
	admin kubernetes.Interface
	clk   clock.WithTicker
)

func TestMain(m *testing.M) {
	options := controlplane.Options{NoServiceAccountAdmission: true}
	os.Exit(controlplane.RunTests(m, options, func(c *controlplane.ControlPlane) {
		plane, admin, clk = c, c.AdminClient(), harness.FastClock()
	}))
}

// start runs a manager that reaches the API server through the proxy, until the end of the test.
func start(t *testing.T, proxy *faultproxy.Proxy, edits ...func(*manager.Config)) *manager.Manager {
	t.Helper()
	only := harness.Only(func(c *manager.Config) []**bool {
		return []**bool{&c.Controllers.NodeLifecycle.Enabled, &c.Controllers.TaintEviction.Enabled}
	})
	m := manager.Join(t, plane, runtime.Options{Clock: clk}, harness.All(only, harness.WithoutLease, harness.Through(t, proxy), harness.All(edits...)))
	must.Succeed(t, m.WaitRunning(t.Context()))
	return m
}

// conditionOf returns a condition of a node, empty if it has none.
func conditionOf(node *corev1.Node, is corev1.NodeConditionType) corev1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == is {
			return c
		}
	}
	return corev1.NodeCondition{}
}

// taintsOf prints the taints of a node.
func taintsOf(node *corev1.Node) string {
	text := ""
	for _, t := range node.Spec.Taints {
		text += fmt.Sprintf("%s:%s ", t.Key, t.Effect)
	}
	return text
}

func hasTaint(node *corev1.Node, key string, effect corev1.TaintEffect) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == key && t.Effect == effect {
			return true
		}
	}
	return false
}

func getNode(ctx context.Context, name string) (*corev1.Node, error) {
	return admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
}

// awaitNode waits until a node is as it should be, which check says.
func awaitNode(t *testing.T, name, what string, check func(*corev1.Node) bool) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	await.Within(t, 3*time.Minute, name+" "+what, func(ctx context.Context) (err error) {
		if node, err = getNode(ctx, name); err != nil {
			return err
		}
		if !check(node) {
			return fmt.Errorf("Ready is %s, taints are %s", conditionOf(node, corev1.NodeReady).Status, taintsOf(node))
		}
		return nil
	})
	return node
}

func isReady(node *corev1.Node) bool {
	return conditionOf(node, corev1.NodeReady).Status == corev1.ConditionTrue
}

func isUnknown(node *corev1.Node) bool {
	return conditionOf(node, corev1.NodeReady).Status == corev1.ConditionUnknown
}

func isUntainted(node *corev1.Node) bool { return len(node.Spec.Taints) == 0 }
