package garbage

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// TestGatesOfAnEmulatedVersion has the manager behave like a version in which gates could be
// switched that are locked today.
func TestGatesOfAnEmulatedVersion(t *testing.T) {
	cluster.Emulate(t, "1.33", map[string]bool{"OrderedNamespaceDeletion": false})
	t.Run("the content of a namespace goes beside its pods", func(t *testing.T) {
		namespace := cluster.NamespaceForPods(t)
		cluster.CreateConfigMap(t, namespace, "needed")
		cluster.CreatePod(t, namespace, "slow", "web", func(p *corev1.Pod) {
			p.Spec.NodeName = harness.Ghost
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
		})
		cluster.DeleteNamespace(t, namespace)
		await.That(t, "the content is gone", func(ctx context.Context) error {
			_, err := admin.CoreV1().ConfigMaps(namespace).Get(ctx, "needed", metav1.GetOptions{})
			return await.Gone(err)
		})
		must.Get(admin.CoreV1().Pods(namespace).Get(t.Context(), "slow", metav1.GetOptions{}))(t)
		cluster.DeletePodNow(t, namespace, "slow")
		cluster.WaitForNamespaceGone(t, namespace)
	})
}
