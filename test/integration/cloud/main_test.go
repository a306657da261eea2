// Package cloud tests the controllers that work with a cloud, on the cloud in memory of
// test/fakecloud: load balancers of Services, routes to the pods of nodes, and nodes that are
// initialized, deleted and tainted as the cloud says. And that they stop and start like all
// others, although they are made for a process that ends with them.
//
// The nodes of these tests have no kubelets. All of them are behind every load balancer.
package cloud

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kcmd.dev/test/await"
	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

var (
	cluster *harness.Cluster
	admin   kubernetes.Interface
	memory  = fakecloud.The()
)

func TestMain(m *testing.M) {
	shared := harness.Package{Configure: harness.All(harness.Only(enabled), withCloud)}
	os.Exit(shared.Run(m, func(c *harness.Cluster) { cluster, admin = c, c.Admin }))
}

// enabled is what is tested here: nothing else is on.
func enabled(c *manager.Config) []**bool {
	return []**bool{
		&c.Controllers.ServiceLB.Enabled,
		&c.Controllers.NodeRoute.Enabled,
		&c.Controllers.CloudNode.Enabled,
		&c.Controllers.CloudNodeLifecycle.Enabled,
	}
}

func withCloud(c *manager.Config) {
	second := &metav1.Duration{Duration: time.Second}
	c.Cloud.Provider = fakecloud.Name
	c.Networking.ClusterCIDRs = []string{"10.244.0.0/16", "fd00:244::/56"}
	c.Controllers.NodeRoute.ReconciliationPeriod = second
	c.Controllers.CloudNodeLifecycle.NodeMonitorPeriod = second
	c.Controllers.CloudNode.NodeStatusUpdateFrequency = second
}

// createNode creates a node with a condition Ready, and deletes it with the test.
func createNode(t *testing.T, name string, ready corev1.ConditionStatus, edit func(*corev1.Node)) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if edit != nil {
		edit(node)
	}
	node = must.Get(admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = admin.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}) })
	setReady(t, name, ready)
	return node
}

func setReady(t *testing.T, name string, status corev1.ConditionStatus) {
	t.Helper()
	patch := fmt.Sprintf(`{"status": {"conditions": [{"type": "Ready", "status": %q}]}}`, status)
	must.Get(admin.CoreV1().Nodes().Patch(t.Context(), name, "application/strategic-merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status"))(t)
}

// waitForNode waits until a node is as it should be.
func waitForNode(t *testing.T, name, what string, check func(*corev1.Node) error) {
	t.Helper()
	await.That(t, name+": "+what, func(ctx context.Context) error {
		node, err := admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return check(node)
	})
}

// createBalanced creates a Service of type LoadBalancer.
func createBalanced(t *testing.T, namespace, name string, edit func(*corev1.Service)) *corev1.Service {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if edit != nil {
		edit(service)
	}
	return must.Get(admin.CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{}))(t)
}

// waitForService waits until a Service is as it should be.
func waitForService(t *testing.T, namespace, name, what string, check func(*corev1.Service) error) {
	t.Helper()
	await.That(t, name+": "+what, func(ctx context.Context) error {
		service, err := admin.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return check(service)
	})
}

// hasAddress is nil if a load balancer's address is in the status.
func hasAddress(service *corev1.Service) error {
	if in := service.Status.LoadBalancer.Ingress; len(in) != 1 || in[0].IP != fakecloud.BalancerIP {
		return fmt.Errorf("the status has %v", in)
	}
	return nil
}
