package disruption

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watchOwners has budgets reconciled when the controllers of their pods are scaled. As a rule, pods come or go then,
// but not if none can be created, or if there are as many already.
func (c *disruptionController) watchOwners() {
	core, apps := c.Informers.Core().V1(), c.Informers.Apps().V1()
	watchOwner(c, core.ReplicationControllers().Informer(), replicationControllerAsOwner)
	watchOwner(c, apps.ReplicaSets().Informer(), replicaSetAsOwner)
	watchOwner(c, apps.Deployments().Informer(), deploymentAsOwner)
	watchOwner(c, apps.StatefulSets().Informer(), statefulSetAsOwner)
}

func replicationControllerAsOwner(rc *corev1.ReplicationController) (*int32, *corev1.PodTemplateSpec) {
	return rc.Spec.Replicas, rc.Spec.Template
}

func deploymentAsOwner(d *appsv1.Deployment) (*int32, *corev1.PodTemplateSpec) {
	return d.Spec.Replicas, &d.Spec.Template
}

func statefulSetAsOwner(set *appsv1.StatefulSet) (*int32, *corev1.PodTemplateSpec) {
	return set.Spec.Replicas, &set.Spec.Template
}

// replicaSetAsOwner returns no replicas for a ReplicaSet of a Deployment: those of the Deployment count.
func replicaSetAsOwner(rs *appsv1.ReplicaSet) (*int32, *corev1.PodTemplateSpec) {
	if ref := metav1.GetControllerOfNoCopy(rs); ref != nil && ref.Kind == "Deployment" {
		return nil, &rs.Spec.Template
	}
	return rs.Spec.Replicas, &rs.Spec.Template
}

// watchOwner watches the controllers of one kind, given the replicas that count of one, nil for none, and the template
// of its pods. One that a list lacked may come back with other replicas.
func watchOwner[T metav1.Object](
	c *disruptionController, informer cache.SharedIndexInformer, of func(T) (*int32, *corev1.PodTemplateSpec),
) {
	wake := func(lane reconcile.Lane, owner T) {
		if _, template := of(owner); template != nil {
			c.enqueue(lane, slices.DeleteFunc(c.budgetsFor(owner.GetNamespace(), template.Labels), countsPods))
		}
	}
	watch.ObjectsEvery(informer, 0, watch.Funcs[T]{
		Add: func(lane reconcile.Lane, owner T) {
			if !lane.IsBacklog() {
				wake(lane, owner)
			}
		},
		UpdateIf: func(old, owner T) bool {
			was, _ := of(old)
			is, _ := of(owner)
			return old.GetUID() != owner.GetUID() || !ptr.Equal(was, is) || !owners.SameController(old, owner)
		},
		Update: func(lane reconcile.Lane, _, owner T) { wake(lane, owner) },
	})
}

// countsPods reports whether a budget expects the pods that there are, whatever their controllers want.
func countsPods(budget *policyv1.PodDisruptionBudget) bool { return !needsReplicas(&budget.Spec) }
