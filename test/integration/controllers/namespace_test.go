package controllers

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
)

func deleteNamespace(t *testing.T, name string) {
	t.Helper()
	if err := admin.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func waitForNamespaceGone(t *testing.T, name string) {
	t.Helper()
	eventually(t, "the namespace is gone", func(ctx context.Context) error {
		n, err := admin.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("its conditions are %q", namespaceConditions(n))
		}
		return gone(err)
	})
}

func namespaceConditions(n *corev1.Namespace) []string {
	var all []string
	for _, c := range n.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return all
}

// waitForNamespaceConditions waits until the namespace has each of the conditions.
func waitForNamespaceConditions(t *testing.T, name string, want ...string) {
	t.Helper()
	eventually(t, "the namespace has its conditions", func(ctx context.Context) error {
		n, err := admin.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return final(err)
		}
		got := strings.Join(namespaceConditions(n), "\n")
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

func createConfigMap(t *testing.T, namespace, name string, finalizers ...string) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}}
	must(admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{}))(t)
}

func patchConfigMap(t *testing.T, namespace, name, patch string) *corev1.ConfigMap {
	t.Helper()
	return must(admin.CoreV1().ConfigMaps(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
}

func TestNamespaceWithManyKindsIsDeleted(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createDeployment(t, namespace, 3, nil)
	replicationControllers.create(t, namespace, 2, func(r *replicas) { r.Template.Labels["app"] = "rc" })
	createService(t, namespace, nil)
	createConfigMap(t, namespace, "settings")
	must(admin.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}))(t)
	must(admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}))(t)
	must(admin.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r"}}, metav1.CreateOptions{}))(t)
	must(admin.NetworkingV1().NetworkPolicies(namespace).Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}))(t)
	custom := createCustomResource(t, namespace)
	waitForRollout(t, namespace)

	deleteNamespace(t, namespace)
	waitForNamespaceGone(t, namespace)
	if left := must(custom.List(t.Context(), metav1.ListOptions{}))(t); len(left.Items) > 0 {
		t.Errorf("%d custom resources outlive their namespace", len(left.Items))
	}
	if left := must(admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}))(t); len(left.Items) > 0 {
		t.Errorf("%d pods outlive their namespace", len(left.Items))
	}
}

// createCustomResource creates an object of a kind that did not exist when the
// manager was started, and returns the client of the kind in the namespace.
func createCustomResource(t *testing.T, namespace string) dynamic.ResourceInterface {
	t.Helper()
	client := must(dynamic.NewForConfig(plane.AdminConfig()))(t)
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
	must(definitions.Create(t.Context(), definition, metav1.CreateOptions{}))(t)
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
	eventually(t, "the new kind is served", func(ctx context.Context) error {
		_, err := widgets.Create(ctx, widget, metav1.CreateOptions{})
		return err
	})
	return widgets
}

func TestNamespaceTellsOfFinalizers(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createConfigMap(t, namespace, "held", hold)
	createConfigMap(t, namespace, "held-too", hold, hold+"-as-well")
	createConfigMap(t, namespace, "free")
	deleteNamespace(t, namespace)
	waitForNamespaceConditions(t, namespace, discovered, parsed, deleted,
		"NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: configmaps. has 2 resource instances",
		"NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: "+
			hold+" in 2 resource instances, "+hold+"-as-well in 1 resource instances")
	patchConfigMap(t, namespace, "held", noFinalizers)
	patchConfigMap(t, namespace, "held-too", noFinalizers)
	waitForNamespaceGone(t, namespace)
}

// TestNamespaceDeletesPodsFirst has a pod that nobody ends within its grace period.
func TestNamespaceDeletesPodsFirst(t *testing.T) {
	t.Parallel()
	const grace = 15 // well above the 5s after which a deletion is looked at
	namespace := newNamespace(t)
	createConfigMap(t, namespace, "needed")
	createPod(t, namespace, "slow", "web", func(p *corev1.Pod) {
		p.Spec.NodeName = ghost
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](grace)
	})
	deleteNamespace(t, namespace)
	waitForNamespaceConditions(t, namespace, discovered, parsed, deleted, removed, noFinalizer)
	pod := must(admin.CoreV1().Pods(namespace).Get(t.Context(), "slow", metav1.GetOptions{}))(t)
	if pod.DeletionTimestamp == nil || *pod.DeletionGracePeriodSeconds != grace {
		t.Errorf("the pod is not asked to end within its grace period: %+v", pod.ObjectMeta)
	}
	if _, err := admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), "needed", metav1.GetOptions{}); err != nil {
		t.Errorf("the content goes before the pods: %v", err)
	}
	deleteNow(t, namespace, "slow")
	waitForNamespaceGone(t, namespace)
}

// TestNamespaceKeepsForeignFinalizers removes the finalizer of Kubernetes only.
func TestNamespaceKeepsForeignFinalizers(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	n := must(admin.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}))(t)
	n.Spec.Finalizers = append(n.Spec.Finalizers, hold)
	must(admin.CoreV1().Namespaces().Finalize(t.Context(), n, metav1.UpdateOptions{}))(t)
	createConfigMap(t, namespace, "content")
	deleteNamespace(t, namespace)
	eventually(t, "only the foreign finalizer is left", func(ctx context.Context) (err error) {
		if n, err = admin.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); err != nil {
			return final(err)
		}
		if len(n.Spec.Finalizers) != 1 || n.Spec.Finalizers[0] != hold {
			return fmt.Errorf("the finalizers are %v", n.Spec.Finalizers)
		}
		return nil
	})
	if _, err := admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), "content", metav1.GetOptions{}); gone(err) != nil {
		t.Errorf("the content: %v", gone(err))
	}
	n.Spec.Finalizers = nil
	must(admin.CoreV1().Namespaces().Finalize(t.Context(), n, metav1.UpdateOptions{}))(t)
	waitForNamespaceGone(t, namespace)
}
