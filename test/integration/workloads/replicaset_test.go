package workloads

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

var replicaSets = replicaKind{
	Kind:      "ReplicaSet",
	Component: "replicaset-controller",
	Create: func(ctx context.Context, namespace string, r *replicas) error {
		_, err := admin.AppsV1().ReplicaSets(namespace).Create(ctx, newReplicaSet(r), metav1.CreateOptions{})
		return err
	},
	Get: func(ctx context.Context, namespace, name string) (*replicas, error) {
		rs, err := admin.AppsV1().ReplicaSets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		r := &replicas{
			Name: rs.Name, Replicas: *rs.Spec.Replicas, MinReadySeconds: rs.Spec.MinReadySeconds,
			UID: rs.UID, Generation: rs.Generation, ObservedGeneration: rs.Status.ObservedGeneration,
			Current: rs.Status.Replicas, FullyLabeled: rs.Status.FullyLabeledReplicas,
			Ready: rs.Status.ReadyReplicas, Available: rs.Status.AvailableReplicas, Terminating: rs.Status.TerminatingReplicas,
		}
		for _, c := range rs.Status.Conditions {
			r.Conditions = append(r.Conditions, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
		return r, nil
	},
	Patch: func(ctx context.Context, namespace, name, patch string) error {
		_, err := admin.AppsV1().ReplicaSets(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	},
	Delete: func(ctx context.Context, namespace, name string) error {
		return admin.AppsV1().ReplicaSets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	},
}

func newReplicaSet(r *replicas) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas:        ptr.To(r.Replicas),
			MinReadySeconds: r.MinReadySeconds,
			Selector:        &metav1.LabelSelector{MatchLabels: map[string]string{"app": r.Template.Labels["app"]}},
			Template:        r.Template,
		},
	}
}

func TestReplicaSet(t *testing.T) {
	t.Parallel()
	testReplicas(t, replicaSets)
}

// TestReplicaSetSpreadsDeletions has ReplicaSets of one Deployment: pods on a node
// with many pods of the Deployment go first.
// Pins RS-24.
func TestReplicaSetSpreadsDeletions(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	sets := admin.AppsV1().ReplicaSets(namespace)
	// The owner of both is one that no controller of ours looks after.
	owner := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Rollout", Name: "web", UID: uuid.NewUUID(), Controller: ptr.To(true)}
	for name, onNodes := range map[string][]int{"small": {0, 1, 2}, "big": {1, 1}} {
		for i, node := range onNodes {
			cluster.CreatePod(t, namespace, fmt.Sprintf("%s-%d", name, i), name, harness.OnNode(node))
		}
		cluster.WaitForReadyPods(t, namespace, map[string]string{"app": name}, len(onNodes))
		rs := newReplicaSet(&replicas{Name: name, Replicas: int32(len(onNodes)), Template: harness.PodTemplate(name, "web:1")})
		rs.OwnerReferences = []metav1.OwnerReference{owner}
		must.Get(sets.Create(t.Context(), rs, metav1.CreateOptions{}))(t)
	}
	for _, name := range []string{"small", "big"} {
		await.That(t, name+" owns its pods", func(ctx context.Context) error {
			rs, err := sets.Get(ctx, name, metav1.GetOptions{})
			if err == nil && rs.Status.ReadyReplicas != *rs.Spec.Replicas {
				err = fmt.Errorf("%d are ready", rs.Status.ReadyReplicas)
			}
			return err
		})
	}
	must.Get(sets.Patch(t.Context(), "small", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{}))(t)
	await.That(t, "the pod beside two others is deleted", func(ctx context.Context) error {
		_, err := admin.CoreV1().Pods(namespace).Get(ctx, "small-1", metav1.GetOptions{})
		return await.Gone(err)
	})
	cluster.WaitForReadyPods(t, namespace, map[string]string{"app": "small"}, 2)
}

// Pins RS-38.
func TestReplicaSetRecreatedUnderItsName(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	first := replicaSets.create(t, namespace, 2, nil)
	replicaSets.waitForStatus(t, namespace, 2)
	if err := replicaSets.Delete(t.Context(), namespace, "web"); err != nil {
		t.Fatal(err)
	}
	second := replicaSets.create(t, namespace, 3, func(r *replicas) { r.Template.Labels["new"] = "yes" })
	replicaSets.waitForStatus(t, namespace, 3)
	owners := map[types.UID]int{}
	for _, p := range must.Get(cluster.PodsOf(t.Context(), namespace, map[string]string{"app": "web"}))(t) {
		owners[metav1.GetControllerOf(&p).UID]++
	}
	// Nobody collects the pods of the first one.
	if owners[first.UID] != 2 || owners[second.UID] != 3 {
		t.Errorf("the pods are owned by %v", owners)
	}
}
