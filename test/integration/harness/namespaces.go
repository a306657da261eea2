package harness

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// DeleteNamespace asks for the deletion of a namespace.
func (c *Cluster) DeleteNamespace(t testing.TB, name string) {
	t.Helper()
	must.Succeed(t, c.Admin.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// WaitForNamespaceGone waits until a namespace does not exist any more.
func (c *Cluster) WaitForNamespaceGone(t testing.TB, name string) {
	t.Helper()
	await.That(t, "the namespace is gone", func(ctx context.Context) error {
		n, err := c.Admin.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("its conditions are %q", NamespaceConditions(n))
		}
		return await.Gone(err)
	})
}

// NamespaceConditions is what a user sees of the conditions of a namespace.
func NamespaceConditions(n *corev1.Namespace) []string {
	var all []string
	for _, c := range n.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return all
}

// CreateConfigMap creates an empty ConfigMap.
func (c *Cluster) CreateConfigMap(t testing.TB, namespace, name string, finalizers ...string) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}}
	must.Get(c.Admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{}))(t)
}

// PatchConfigMap applies a merge patch.
func (c *Cluster) PatchConfigMap(t testing.TB, namespace, name, patch string) *corev1.ConfigMap {
	t.Helper()
	return must.Get(c.Admin.CoreV1().ConfigMaps(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
}
