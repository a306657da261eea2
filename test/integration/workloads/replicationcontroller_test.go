package workloads

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var replicationControllers = replicaKind{
	Kind:      "ReplicationController",
	Component: "replication-controller",
	Create: func(ctx context.Context, namespace string, r *replicas) error {
		rc := &corev1.ReplicationController{
			ObjectMeta: metav1.ObjectMeta{Name: r.Name},
			Spec: corev1.ReplicationControllerSpec{
				Replicas:        ptr.To(r.Replicas),
				MinReadySeconds: r.MinReadySeconds,
				Selector:        map[string]string{"app": r.Template.Labels["app"]},
				Template:        &r.Template,
			},
		}
		_, err := admin.CoreV1().ReplicationControllers(namespace).Create(ctx, rc, metav1.CreateOptions{})
		return err
	},
	Get: func(ctx context.Context, namespace, name string) (*replicas, error) {
		rc, err := admin.CoreV1().ReplicationControllers(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		r := &replicas{
			Name: rc.Name, Replicas: *rc.Spec.Replicas, MinReadySeconds: rc.Spec.MinReadySeconds,
			UID: rc.UID, Generation: rc.Generation, ObservedGeneration: rc.Status.ObservedGeneration,
			Current: rc.Status.Replicas, FullyLabeled: rc.Status.FullyLabeledReplicas,
			Ready: rc.Status.ReadyReplicas, Available: rc.Status.AvailableReplicas,
		}
		for _, c := range rc.Status.Conditions {
			r.Conditions = append(r.Conditions, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
		return r, nil
	},
	Patch: func(ctx context.Context, namespace, name, patch string) error {
		_, err := admin.CoreV1().ReplicationControllers(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	},
	Delete: func(ctx context.Context, namespace, name string) error {
		return admin.CoreV1().ReplicationControllers(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	},
}

func TestReplicationController(t *testing.T) {
	t.Parallel()
	testReplicas(t, replicationControllers)
}

// TestReplicationControllerAndReplicaSetOfOneName have the same name, namespace and
// selector, and do not get into each other's way.
// Pins WL-88.
func TestReplicationControllerAndReplicaSetOfOneName(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	rc := replicationControllers.create(t, namespace, 2, nil)
	rs := replicaSets.create(t, namespace, 3, nil)
	replicationControllers.waitForStatus(t, namespace, 2)
	replicaSets.waitForStatus(t, namespace, 3)
	replicationControllers.scale(t, namespace, 1)
	replicaSets.scale(t, namespace, 4)
	replicationControllers.waitForStatus(t, namespace, 1)
	replicaSets.waitForStatus(t, namespace, 4)
	owners := map[types.UID]int{}
	for _, p := range cluster.WaitForReadyPods(t, namespace, map[string]string{"app": "web"}, 5) {
		owners[metav1.GetControllerOf(&p).UID]++
	}
	if owners[rc.UID] != 1 || owners[rs.UID] != 4 {
		t.Errorf("the pods are owned by %v", owners)
	}
}
