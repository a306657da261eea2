package nodes

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
)

// Pins PGP-3, PGP-5, PGP-10 and PGP-11.
func TestAPodGroupStaysWhileItHasPods(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	groups := admin.SchedulingV1alpha2().PodGroups(namespace)
	group := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "group"}, Spec: schedulingv1alpha2.PodGroupSpec{
		SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{Basic: &schedulingv1alpha2.BasicSchedulingPolicy{}},
	}}
	created, err := groups.Create(t.Context(), group, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(created.Finalizers, "scheduling.k8s.io/podgroup-protection") {
		t.Fatalf("the API server did not protect the group: %v", created.Finalizers)
	}
	cluster.CreatePod(t, namespace, "member", "web", func(p *corev1.Pod) {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("group")}
	})
	if err := groups.Delete(t.Context(), "group", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	other := group.DeepCopy()
	other.Name = "empty"
	if _, err := groups.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := groups.Delete(t.Context(), "empty", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the group without pods goes", func(ctx context.Context) error {
		_, err := groups.Get(ctx, "empty", metav1.GetOptions{})
		return await.Gone(err)
	})
	if _, err := groups.Get(t.Context(), "group", metav1.GetOptions{}); err != nil {
		t.Fatalf("the group with a pod is gone: %v", err)
	}
	if _, err := admin.CoreV1().Pods(namespace).Patch(t.Context(), "member", types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the group goes with its last pod", func(ctx context.Context) error {
		_, err := groups.Get(ctx, "group", metav1.GetOptions{})
		return await.Gone(err)
	})
}
