package services

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/await"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const cidrFinalizer = "networking.k8s.io/service-cidr-finalizer"

// createCIDR creates a ServiceCIDR, and waits until it is protected and ready. From then on every
// new Service may get an address of it, and hold it: tests that wait for a range to go run alone.
func createCIDR(t *testing.T, name string, cidrs ...string) {
	t.Helper()
	client := admin.NetworkingV1().ServiceCIDRs()
	must.Get(client.Create(t.Context(), &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = client.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	awaitCIDR(t, name, metav1.ConditionTrue, "Kubernetes Service CIDR is ready")
}

// awaitCIDR waits until a ServiceCIDR has the finalizer, and the condition Ready as given.
func awaitCIDR(t *testing.T, name string, status metav1.ConditionStatus, message string) {
	t.Helper()
	await.That(t, fmt.Sprintf("ServiceCIDR %s has Ready=%s", name, status), func(ctx context.Context) error {
		cidr, err := admin.NetworkingV1().ServiceCIDRs().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(cidr.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
		if c == nil || c.Status != status || c.Message != message || !slices.Contains(cidr.Finalizers, cidrFinalizer) {
			return fmt.Errorf("finalizers %q, %+v", cidr.Finalizers, cidr.Status.Conditions)
		}
		return nil
	})
}

func deleteCIDR(t *testing.T, name string) {
	t.Helper()
	must.Succeed(t, admin.NetworkingV1().ServiceCIDRs().Delete(t.Context(), name, metav1.DeleteOptions{}))
}

func awaitHeld(t *testing.T, name string) {
	t.Helper()
	awaitCIDR(t, name, metav1.ConditionFalse, "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR")
}

func awaitCIDRGone(t *testing.T, name string) {
	t.Helper()
	await.That(t, "ServiceCIDR "+name+" is gone", func(ctx context.Context) error {
		cidr, err := admin.NetworkingV1().ServiceCIDRs().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return await.Gone(err)
		}
		addresses, err := admin.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		names := []string{}
		for _, a := range addresses.Items {
			names = append(names, fmt.Sprintf("%s of %s/%s", a.Name, a.Spec.ParentRef.Namespace, a.Spec.ParentRef.Name))
		}
		return fmt.Errorf("finalizers %q, conditions %+v, stored addresses %q", cidr.Finalizers, cidr.Status.Conditions, names)
	})
}

// createServiceAt creates a Service with an address, as soon as the API server allocates it.
func createServiceAt(t *testing.T, namespace, name, address string) {
	t.Helper()
	await.That(t, "a Service can have the address "+address, func(ctx context.Context) error {
		_, err := admin.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{ClusterIP: address, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		return err
	})
}

// Pins CIDR-3 and CIDR-25.
func TestTheDefaultRangeIsProtected(t *testing.T) {
	t.Parallel()
	awaitCIDR(t, "kubernetes", metav1.ConditionTrue, "Kubernetes Service CIDR is ready")
}

// Pins CIDR-18, CIDR-18c, CIDR-27 and CIDR-37.
func TestARangeStaysWhileAServiceHasAnAddressOfIt(t *testing.T) {
	namespace := cluster.Namespace(t)
	createCIDR(t, "used", "10.201.0.0/24")
	createServiceAt(t, namespace, "web", "10.201.0.7")
	deleteCIDR(t, "used")
	awaitHeld(t, "used")
	must.Succeed(t, admin.CoreV1().Services(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	awaitCIDRGone(t, "used")
}

// Another range that has the addresses frees it, even one that is created later.
// Pins CIDR-6, CIDR-18a and CIDR-37.
func TestARangeGoesIfAnotherOneHasItsAddresses(t *testing.T) {
	namespace := cluster.Namespace(t)
	createCIDR(t, "part", "10.202.1.0/24")
	createServiceAt(t, namespace, "web", "10.202.1.7")
	deleteCIDR(t, "part")
	awaitHeld(t, "part")
	createCIDR(t, "whole", "10.202.0.0/16")
	awaitCIDRGone(t, "part")
	deleteCIDR(t, "whole")
	awaitHeld(t, "whole")
	must.Succeed(t, admin.CoreV1().Services(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	awaitCIDRGone(t, "whole")
}

// A Service gets an address while the cache of addresses is late, and never catches up. A restart
// of the controller does not help it. Pins CIDR-43.
func TestAnAddressThatTheCacheDoesNotShowHoldsItsRange(t *testing.T) {
	ranges := func(c *manager.Config) []**bool { return []**bool{&c.Controllers.ServiceCIDR.Enabled} }
	namespace := cluster.Namespace(t)
	createCIDR(t, "late", "10.203.0.0/24")
	cluster.Rest(t, ranges)
	r := cluster.Behind(t, harness.Only(ranges))
	r.Works(t)
	held := r.HoldEvents(faultproxy.Requests{Resource: networkingv1.Resource("ipaddresses"), Verbs: []string{"watch"}})
	createServiceAt(t, namespace, "web", "10.203.0.7")
	deleteCIDR(t, "late")
	awaitHeld(t, "late") // when the grace period has ended
	must.Succeed(t, admin.CoreV1().Services(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	held.Lift()
	awaitCIDRGone(t, "late")
}

// Two equal ranges that are deleted at once do not rely on one another. Pins CIDR-42.
func TestOneOfTwoEqualRangesStays(t *testing.T) {
	namespace := cluster.Namespace(t)
	createCIDR(t, "equal-a", "10.204.0.0/24")
	createCIDR(t, "equal-b", "10.204.0.0/24")
	createServiceAt(t, namespace, "web", "10.204.0.7")
	deleteCIDR(t, "equal-a")
	deleteCIDR(t, "equal-b")
	awaitHeld(t, "equal-b")
	awaitCIDRGone(t, "equal-a")
	awaitHeld(t, "equal-b")
	must.Succeed(t, admin.CoreV1().Services(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	awaitCIDRGone(t, "equal-b")
}
