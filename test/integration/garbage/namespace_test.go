package garbage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// waitForNamespaceConditions waits until the namespace has each of the conditions.
func waitForNamespaceConditions(t *testing.T, name string, want ...string) {
	t.Helper()
	await.That(t, "the namespace has its conditions", func(ctx context.Context) error {
		n, err := admin.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return await.Existing(err)
		}
		got := strings.Join(harness.NamespaceConditions(n), "\n")
		for _, w := range want {
			if !strings.Contains(got, w) {
				return fmt.Errorf("there is no %q among\n%s", w, got)
			}
		}
		if n.Status.Phase != corev1.NamespaceTerminating {
			return fmt.Errorf("its phase is %s", n.Status.Phase)
		}
		return nil
	})
}

const (
	discovered  = "NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered: All resources successfully discovered"
	parsed      = "NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy kube types successfully parsed"
	deleted     = "NamespaceDeletionContentFailure=False ContentDeleted: All content successfully deleted, may be waiting on finalization"
	removed     = "NamespaceContentRemaining=False ContentRemoved: All content successfully removed"
	noFinalizer = "NamespaceFinalizersRemaining=False ContentHasNoFinalizers: All content-preserving finalizers finished"
)

func TestNamespaceWithManyKindsIsDeleted(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateDeployment(t, namespace, 3, nil)
	template := harness.PodTemplate("rc", "web:1")
	must.Get(admin.CoreV1().ReplicationControllers(namespace).Create(t.Context(), &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ReplicationControllerSpec{Replicas: ptr.To[int32](2), Selector: template.Labels, Template: &template},
	}, metav1.CreateOptions{}))(t)
	must.Get(admin.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))(t)
	cluster.CreateConfigMap(t, namespace, "settings")
	must.Get(admin.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}))(t)
	must.Get(admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}))(t)
	must.Get(admin.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r"}}, metav1.CreateOptions{}))(t)
	must.Get(admin.NetworkingV1().NetworkPolicies(namespace).Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}))(t)
	custom := createCustomResource(t, namespace)
	cluster.WaitForRollout(t, namespace)

	cluster.DeleteNamespace(t, namespace)
	cluster.WaitForNamespaceGone(t, namespace)
	if left := must.Get(custom.List(t.Context(), metav1.ListOptions{}))(t); len(left.Items) > 0 {
		t.Errorf("%d custom resources outlive their namespace", len(left.Items))
	}
	if left := must.Get(admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}))(t); len(left.Items) > 0 {
		t.Errorf("%d pods outlive their namespace", len(left.Items))
	}
}

// createCustomResource creates an object of a kind that did not exist when the
// manager was started, and returns the client of the kind in the namespace.
func createCustomResource(t *testing.T, namespace string) dynamic.ResourceInterface {
	t.Helper()
	client := must.Get(dynamic.NewForConfig(cluster.AdminConfig()))(t)
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	const name = "widgets.test.kcmd.dev"
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"group": "test.kcmd.dev", "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}
	must.Get(definitions.Create(t.Context(), definition, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := definitions.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	widgets := client.Resource(schema.GroupVersionResource{Group: "test.kcmd.dev", Version: "v1", Resource: "widgets"}).Namespace(namespace)
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "test.kcmd.dev/v1", "kind": "Widget", "metadata": map[string]any{"name": "one"},
	}}
	await.That(t, "the new kind is served", func(ctx context.Context) error {
		_, err := widgets.Create(ctx, widget, metav1.CreateOptions{})
		return err
	})
	return widgets
}

// Pins NS-38 and NS-39.
func TestNamespaceTellsOfFinalizers(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateConfigMap(t, namespace, "held", harness.Hold)
	cluster.CreateConfigMap(t, namespace, "held-too", harness.Hold, harness.Hold+"-as-well")
	cluster.CreateConfigMap(t, namespace, "free")
	cluster.DeleteNamespace(t, namespace)
	waitForNamespaceConditions(t, namespace, discovered, parsed, deleted,
		"NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: configmaps. has 2 resource instances",
		"NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: "+
			harness.Hold+" in 2 resource instances, "+harness.Hold+"-as-well in 1 resource instances")
	cluster.PatchConfigMap(t, namespace, "held", harness.NoFinalizers)
	cluster.PatchConfigMap(t, namespace, "held-too", harness.NoFinalizers)
	cluster.WaitForNamespaceGone(t, namespace)
}

// TestNamespaceDeletesPodsFirst has a pod that nobody ends within its grace period.
// Pins NS-28a and NS-41.
func TestNamespaceDeletesPodsFirst(t *testing.T) {
	t.Parallel()
	const grace = 3600 // well above the 5s after which a deletion is looked at, by any clock
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateConfigMap(t, namespace, "needed")
	cluster.CreatePod(t, namespace, "slow", "web", func(p *corev1.Pod) {
		p.Spec.NodeName = harness.Ghost
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](grace)
	})
	cluster.DeleteNamespace(t, namespace)
	waitForNamespaceConditions(t, namespace, discovered, parsed, deleted, removed, noFinalizer)
	pod := must.Get(admin.CoreV1().Pods(namespace).Get(t.Context(), "slow", metav1.GetOptions{}))(t)
	if pod.DeletionTimestamp == nil || *pod.DeletionGracePeriodSeconds != grace {
		t.Errorf("the pod is not asked to end within its grace period: %+v", pod.ObjectMeta)
	}
	if _, err := admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), "needed", metav1.GetOptions{}); err != nil {
		t.Errorf("the content goes before the pods: %v", err)
	}
	cluster.DeletePodNow(t, namespace, "slow")
	cluster.WaitForNamespaceGone(t, namespace)
}

// TestNamespaceKeepsForeignFinalizers removes the finalizer of Kubernetes only.
// Pins NS-30 and NS-32.
func TestNamespaceKeepsForeignFinalizers(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	n := must.Get(admin.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}))(t)
	n.Spec.Finalizers = append(n.Spec.Finalizers, harness.Hold)
	must.Get(admin.CoreV1().Namespaces().Finalize(t.Context(), n, metav1.UpdateOptions{}))(t)
	cluster.CreateConfigMap(t, namespace, "content")
	cluster.DeleteNamespace(t, namespace)
	await.That(t, "only the foreign finalizer is left", func(ctx context.Context) (err error) {
		if n, err = admin.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); err != nil {
			return await.Existing(err)
		}
		if len(n.Spec.Finalizers) != 1 || n.Spec.Finalizers[0] != harness.Hold {
			return fmt.Errorf("the finalizers are %v", n.Spec.Finalizers)
		}
		return nil
	})
	if _, err := admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), "content", metav1.GetOptions{}); await.Gone(err) != nil {
		t.Errorf("the content: %v", await.Gone(err))
	}
	n.Spec.Finalizers = nil
	must.Get(admin.CoreV1().Namespaces().Finalize(t.Context(), n, metav1.UpdateOptions{}))(t)
	cluster.WaitForNamespaceGone(t, namespace)
}
