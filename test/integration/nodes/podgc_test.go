package nodes

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
)

// Pins PODGC-8, PODGC-10, PODGC-11 and PODGC-13.
func TestPodsThatNobodyEndsAreDeleted(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	// The node exists while its pod is bound to it, and goes.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "short-lived"}}
	if _, err := admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.CreatePod(t, namespace, "lost", "web", func(p *corev1.Pod) { p.Spec.NodeName, p.Finalizers = "short-lived", []string{harness.Hold} })
	if err := admin.CoreV1().Nodes().Delete(t.Context(), "short-lived", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Without a kubelet, a pod being deleted that was never scheduled stays, held by its finalizer.
	cluster.CreatePod(t, namespace, "never-scheduled", "web", func(p *corev1.Pod) { p.Finalizers = []string{harness.Hold} })
	if err := admin.CoreV1().Pods(namespace).Delete(t.Context(), "never-scheduled", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		name := fmt.Sprint("ended-", n)
		cluster.CreatePod(t, namespace, name, "web", nil)
		if _, err := admin.CoreV1().Pods(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}

	await.That(t, "no more ended pods are left than the threshold", func(ctx context.Context) error {
		list, err := admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Succeeded"})
		if err != nil || len(list.Items) > 2 {
			return fmt.Errorf("%d are left, %w", len(list.Items), err)
		}
		return nil
	})
	failed := func(name string) *corev1.Pod {
		t.Helper()
		var p *corev1.Pod
		await.Within(t, 100*time.Second, name+" is Failed and being deleted", func(ctx context.Context) (err error) {
			if p, err = admin.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
			if p.Status.Phase != corev1.PodFailed || p.DeletionTimestamp == nil || *p.DeletionGracePeriodSeconds != 0 {
				return fmt.Errorf("phase %s, deleted at %v", p.Status.Phase, p.DeletionTimestamp)
			}
			return nil
		})
		return p
	}
	failed("never-scheduled")
	lost := failed("lost")
	target := slices.IndexFunc(lost.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	if target < 0 || lost.Status.Conditions[target].Reason != "DeletionByPodGC" || lost.Status.Conditions[target].Message != "PodGC: node no longer exists" {
		t.Errorf("conditions: %+v", lost.Status.Conditions)
	}
	for _, name := range []string{"never-scheduled", "lost"} {
		if _, err := admin.CoreV1().Pods(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(harness.NoFinalizers), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
}
