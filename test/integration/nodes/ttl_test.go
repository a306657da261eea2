package nodes

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// Pins TTL-6, TTL-10, TTL-11, TTL-20 and TTL-23. It counts all nodes of the cluster, so it does
// not run beside other tests.
func TestNodesShowHowLongSecretsMayBeCached(t *testing.T) {
	nodes := admin.CoreV1().Nodes()
	total := len(must.Get(nodes.List(t.Context(), metav1.ListOptions{}))(t).Items)
	name := func(n int) string { return fmt.Sprintf("counted-%d", n) }
	resize := func(to int) {
		t.Helper()
		for ; total < to; total++ {
			must.Get(nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name(total)}}, metav1.CreateOptions{}))(t)
		}
		for ; total > to; total-- {
			must.Succeed(t, nodes.Delete(t.Context(), name(total-1), metav1.DeleteOptions{}))
		}
	}
	before := total
	t.Cleanup(func() {
		for n := before; n < total; n++ {
			_ = nodes.Delete(context.Background(), name(n), metav1.DeleteOptions{})
		}
	})
	for _, step := range []struct {
		size int
		want string
	}{{100, "0"}, {101, "15"}, {90, "15"}, {89, "0"}} {
		resize(step.size)
		await.That(t, fmt.Sprintf("%d nodes show %s", step.size, step.want), func(ctx context.Context) error {
			list, err := nodes.List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for i := range list.Items {
				if got := list.Items[i].Annotations[corev1.ObjectTTLAnnotationKey]; got != step.want {
					return fmt.Errorf("%s shows %q", list.Items[i].Name, got)
				}
			}
			return nil
		})
	}
}
