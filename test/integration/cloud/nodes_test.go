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
	cloudproviderapi "k8s.io/cloud-provider/api"

	"kcmd.dev/test/await"
	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/must"
)

func hasTaint(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// Pins CNODE-2, CNODE-7, CNODE-8, CNODE-11, CNODE-13 and CNODE-14.
func TestNodeIsInitialized(t *testing.T) {
	t.Parallel()
	node := createNode(t, "initialized", corev1.ConditionTrue, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	})
	waitForNode(t, node.Name, "it is initialized", func(n *corev1.Node) error {
		want := map[string]string{
			corev1.LabelTopologyZone: fakecloud.Zone, corev1.LabelTopologyRegion: fakecloud.Region, corev1.LabelInstanceTypeStable: fakecloud.InstanceType,
			corev1.LabelFailureDomainBetaZone: fakecloud.Zone, corev1.LabelFailureDomainBetaRegion: fakecloud.Region, corev1.LabelInstanceType: fakecloud.InstanceType,
		}
		for key, value := range want {
			if n.Labels[key] != value {
				return fmt.Errorf("label %s is %q", key, n.Labels[key])
			}
		}
		switch {
		case hasTaint(n, cloudproviderapi.TaintExternalCloudProvider):
			return errors.New("it has the taint")
		case n.Spec.ProviderID != "fake://initialized":
			return fmt.Errorf("the provider ID is %q", n.Spec.ProviderID)
		}
		return hasAddresses(n)
	})
	cluster.WaitForEvent(t, "", node.UID, "cloud-node-controller Normal Synced: Node synced successfully")
}

func hasAddresses(n *corev1.Node) error {
	want := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fakecloud.InternalIP}, {Type: corev1.NodeHostName, Address: n.Name}}
	if !slices.Equal(n.Status.Addresses, want) {
		return fmt.Errorf("the addresses are %v", n.Status.Addresses)
	}
	return nil
}

// Pins CNODE-5, CNODE-10, CNODE-15 and CNODE-16.
func TestAddressesAndLabelsOfANodeAreKept(t *testing.T) {
	t.Parallel()
	createNode(t, "kept", corev1.ConditionTrue, func(n *corev1.Node) {
		n.Labels = map[string]string{corev1.LabelFailureDomainBetaZone: "old", corev1.LabelTopologyZone: "other"}
	})
	waitForNode(t, "kept", "it has the addresses", hasAddresses)
	waitForNode(t, "kept", "the label follows the former one", func(n *corev1.Node) error {
		if got := n.Labels[corev1.LabelTopologyZone]; got != "old" {
			return fmt.Errorf("the zone is %q", got)
		}
		return nil
	})
	waitForNode(t, "kept", "nothing else is initialized", func(n *corev1.Node) error {
		if n.Spec.ProviderID != "" {
			return await.Final(fmt.Errorf("the provider ID is %q", n.Spec.ProviderID))
		}
		return nil
	})
}

// Pins CNODE-9 and CNODE-12.
func TestNodeWithAnAddressThatTheCloudLacksKeepsItsTaint(t *testing.T) {
	t.Parallel()
	createNode(t, "elsewhere", corev1.ConditionTrue, func(n *corev1.Node) {
		n.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: "192.0.2.99"}
		n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Effect: corev1.TaintEffectNoSchedule}}
	})
	await.True(t, "it is retried", func() bool { return len(memory.Calls("InstanceMetadata elsewhere")) > 2 })
	waitForNode(t, "elsewhere", "it has the taint", func(n *corev1.Node) error {
		if !hasTaint(n, cloudproviderapi.TaintExternalCloudProvider) {
			return await.Final(errors.New("the taint is gone"))
		}
		return nil
	})
}

// Pins CNLC-2, CNLC-3, CNLC-5, CNLC-8, CNLC-9, CNLC-11 and CNLC-12.
func TestNodeWithoutAnInstanceIsDeleted(t *testing.T) {
	t.Parallel()
	ready := createNode(t, "ready", corev1.ConditionTrue, nil)
	node := vanish(t, "vanished") // after which the cache has shown that the other is ready
	cluster.WaitForEvent(t, "", node.UID,
		"cloud-node-lifecycle-controller Normal DeletingNode: Deleting node vanished because it does not exist in the cloud provider")
	memory.Remove(ready.Name)
	vanish(t, "vanished-later")
	must.Get(admin.CoreV1().Nodes().Get(t.Context(), ready.Name, metav1.GetOptions{}))(t)
}

// vanish creates a node without an instance, and waits until it is deleted.
func vanish(t *testing.T, name string) *corev1.Node {
	t.Helper()
	memory.Remove(name)
	node := must.Get(admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	await.That(t, name+" is gone", func(ctx context.Context) error {
		_, err := admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return await.Gone(err)
	})
	return node
}

// Pins CNLC-7, CNLC-10 and CNLC-17.
func TestNodeThatIsShutDownIsTainted(t *testing.T) {
	t.Parallel()
	memory.ShutDown("asleep")
	createNode(t, "asleep", corev1.ConditionFalse, nil)
	tainted := func(want bool) func(*corev1.Node) error {
		return func(n *corev1.Node) error {
			if hasTaint(n, cloudproviderapi.TaintNodeShutdown) != want {
				return fmt.Errorf("taints are %v", n.Spec.Taints)
			}
			return nil
		}
	}
	waitForNode(t, "asleep", "it has the taint", tainted(true))
	setReady(t, "asleep", corev1.ConditionTrue)
	waitForNode(t, "asleep", "the taint is gone", tainted(false))
}

// An error of the provider is no answer.
// Pins CNLC-14.
func TestNodeIsKeptWhileTheCloudDoesNotAnswer(t *testing.T) {
	t.Parallel()
	memory.Remove("unclear")
	memory.Fail("InstanceExists unclear", errors.New("the cloud is down"))
	createNode(t, "unclear", corev1.ConditionFalse, nil)
	await.True(t, "it is asked again", func() bool { return len(memory.Calls("InstanceExists unclear")) > 2 })
	must.Get(admin.CoreV1().Nodes().Get(t.Context(), "unclear", metav1.GetOptions{}))(t)
}

// The metrics of the library are those of the process.
// Pins CNODE-17, SLB-17 and CLOUD-6.
func TestMetricsOfTheLibraryAreExposed(t *testing.T) {
	t.Parallel()
	createNode(t, "measured", corev1.ConditionTrue, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Effect: corev1.TaintEffectNoSchedule}}
	})
	await.That(t, "the metrics are there", func(ctx context.Context) error {
		page, err := cluster.Manager.Get(ctx, "/metrics")
		if err != nil {
			return err
		}
		for _, series := range []string{
			"node_controller_cloud_provider_taint_removal_delay_seconds_count", "node_controller_initial_node_sync_delay_seconds_count",
			"service_controller_loadbalancer_sync_total", "service_controller_nodesync_error_total",
			"service_controller_nodesync_latency_seconds_count", "service_controller_update_loadbalancer_host_latency_seconds_count",
			"route_controller_route_sync_total",
			`running_managed_controllers{manager="kube-controller-manager",name="service"} 1`,
			`running_managed_controllers{manager="kube-controller-manager",name="route"} 1`,
			`running_managed_controllers{manager="kube-controller-manager",name="cloud-node"} 1`,
			`running_managed_controllers{manager="kube-controller-manager",name="cloud-node-lifecycle"} 1`,
		} {
			if !strings.Contains(string(page), "\n"+series) {
				return fmt.Errorf("there is no %s", series)
			}
		}
		return nil
	})
}
