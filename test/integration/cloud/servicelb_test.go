package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

const finalizer = "service.kubernetes.io/load-balancer-cleanup"

func eventOf(kind, text string) string { return "service-controller " + kind + " " + text }

// hosts waits until a node is behind the load balancer of a Service, or is not.
func hosts(t *testing.T, service *corev1.Service, node string, want bool) {
	t.Helper()
	await.That(t, fmt.Sprintf("%s is behind the load balancer: %t", node, want), func(context.Context) error {
		names, ok := memory.Hosts(service)
		if !ok || slices.Contains(names, node) != want {
			return fmt.Errorf("there is one: %t, with %v", ok, names)
		}
		return nil
	})
}

// Pins SLB-2, SLB-6, SLB-8, SLB-12, SLB-13, SLB-14, SLB-16 and SLB-21.
func TestLoadBalancerOfAService(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	service := createBalanced(t, namespace, "balanced", nil)
	waitForService(t, namespace, "balanced", "it has the address", func(s *corev1.Service) error {
		if !slices.Contains(s.Finalizers, finalizer) {
			return fmt.Errorf("finalizers are %v", s.Finalizers)
		}
		return hasAddress(s)
	})
	cluster.WaitForEvent(t, namespace, service.UID, eventOf("Normal", "EnsuringLoadBalancer: Ensuring load balancer"))
	cluster.WaitForEvent(t, namespace, service.UID, eventOf("Normal", "EnsuredLoadBalancer: Ensured load balancer"))

	must.Succeed(t, admin.CoreV1().Services(namespace).Delete(t.Context(), "balanced", metav1.DeleteOptions{}))
	await.That(t, "the Service is gone", func(ctx context.Context) error {
		_, err := admin.CoreV1().Services(namespace).Get(ctx, "balanced", metav1.GetOptions{})
		return await.Gone(err)
	})
	if _, ok := memory.Hosts(service); ok {
		t.Error("the Service is gone before its load balancer")
	}
	cluster.WaitForEvent(t, namespace, service.UID, eventOf("Normal", "DeletedLoadBalancer: Deleted load balancer"))
}

// Pins SLB-6a, SLB-6b and SLB-24.
func TestLoadBalancerFollowsTheService(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	service := createBalanced(t, namespace, "changing", nil)
	waitForService(t, namespace, "changing", "it has the address", hasAddress)
	about := "EnsureLoadBalancer " + namespace + "/changing"
	before := len(memory.Calls(about))
	annotate := []byte(`{"metadata": {"annotations": {"a": "b"}}}`)
	must.Get(admin.CoreV1().Services(namespace).Patch(t.Context(), "changing", "application/merge-patch+json", annotate, metav1.PatchOptions{}))(t)
	await.True(t, "an annotation is a reason to ask again", func() bool { return len(memory.Calls(about)) > before })

	toClusterIP := []byte(`{"spec": {"type": "ClusterIP"}}`)
	must.Get(admin.CoreV1().Services(namespace).Patch(t.Context(), "changing", "application/merge-patch+json", toClusterIP, metav1.PatchOptions{}))(t)
	waitForService(t, namespace, "changing", "nothing of the load balancer is left", func(s *corev1.Service) error {
		if len(s.Finalizers)+len(s.Status.LoadBalancer.Ingress) > 0 {
			return fmt.Errorf("finalizers %v, status %v", s.Finalizers, s.Status)
		}
		return nil
	})
	if _, ok := memory.Hosts(service); ok {
		t.Error("the load balancer is still there")
	}
}

// Pins SLB-23.
func TestServicesOfAnotherClassAreLeftAlone(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	createBalanced(t, namespace, "classed", func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.com/other") })
	createBalanced(t, namespace, "later", nil)
	waitForService(t, namespace, "later", "it has the address", hasAddress)
	if calls := memory.Calls("EnsureLoadBalancer " + namespace + "/classed"); len(calls) > 0 {
		t.Errorf("the provider was asked: %v", calls)
	}
}

// Pins SLB-7 and SLB-15.
func TestNodesBehindALoadBalancer(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	service := createBalanced(t, namespace, "hosted", nil)
	waitForService(t, namespace, "hosted", "it has the address", hasAddress)
	createNode(t, "host-"+namespace, corev1.ConditionTrue, nil)
	hosts(t, service, "host-"+namespace, true)
	cluster.WaitForEvent(t, namespace, service.UID, eventOf("Normal", "UpdatedLoadBalancer: Updated load balancer with new hosts"))

	exclude := []byte(`{"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""}}}`)
	must.Get(admin.CoreV1().Nodes().Patch(t.Context(), "host-"+namespace, "application/merge-patch+json", exclude, metav1.PatchOptions{}))(t)
	hosts(t, service, "host-"+namespace, false)
}

// Pins SLB-9, SLB-11 and SLB-18.
func TestFailuresOfTheCloudAreRetried(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	about := "EnsureLoadBalancer " + namespace + "/failing"
	memory.Fail(about, errors.New("no addresses left"))
	service := createBalanced(t, namespace, "failing", nil)
	cluster.WaitForEvent(t, namespace, service.UID,
		eventOf("Warning", "SyncLoadBalancerFailed: Error syncing load balancer: failed to ensure load balancer: no addresses left"))
	memory.Fail(about, nil)
	waitForService(t, namespace, "failing", "it has the address", hasAddress)
}
