package deployment

import (
	"maps"
	"math"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/workloads/podtemplate"
)

// newReplicaSet returns the ReplicaSet to create for the template of a Deployment.
func newReplicaSet(d *appsv1.Deployment, old []*appsv1.ReplicaSet) *appsv1.ReplicaSet {
	hash := podtemplate.Hash(&d.Spec.Template, d.Status.CollisionCount)
	hashLabel := labels.Set{appsv1.DefaultDeploymentUniqueLabelKey: hash}
	template := *d.Spec.Template.DeepCopy()
	template.Labels = labels.Merge(template.Labels, hashLabel)
	selector := d.Spec.Selector.DeepCopy()
	selector.MatchLabels = labels.Merge(selector.MatchLabels, hashLabel)

	annotations := labels.Merge(copiedAnnotations(d.Annotations), replicasAnnotations(d))
	annotations[revisionAnnotation] = strconv.FormatInt(maxRevision(old)+1, 10)

	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       d.Namespace,
			Name:            podtemplate.Name(d.Name, hash),
			Labels:          maps.Clone(template.Labels),
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, deploymentKind)},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas:        ptr.To(grownSize(d, replicaSets{old: old})),
			MinReadySeconds: d.Spec.MinReadySeconds,
			Selector:        selector,
			Template:        template,
		},
	}
}

// grownSize returns the largest size of the new ReplicaSet, which may not exist yet, that the
// other ReplicaSets and the limit of a rolling update allow.
func grownSize(d *appsv1.Deployment, sets replicaSets) int32 {
	if !isRollingUpdate(d) {
		return replicasOf(d)
	}
	var size int32
	if sets.current != nil {
		size = sizeOf(sets.current)
	}
	room := maxReplicas(d) - total(sets.all())
	missing := int64(replicasOf(d)) - int64(size)
	return clampInt32(int64(size) + max(0, min(room, missing)))
}

// syncedReplicaSet returns the new ReplicaSet with the annotations, revision and
// minReadySeconds derived from the Deployment, nil if it has them.
func syncedReplicaSet(d *appsv1.Deployment, sets replicaSets) *appsv1.ReplicaSet {
	rs := sets.current
	annotations := syncedAnnotations(d, rs, maxRevision(sets.old)+1)
	if annotations == nil && rs.Spec.MinReadySeconds == d.Spec.MinReadySeconds {
		return nil
	}
	synced := rs.DeepCopy()
	if annotations != nil {
		synced.Annotations = annotations
	}
	synced.Spec.MinReadySeconds = d.Spec.MinReadySeconds
	return synced
}

func clampInt32(n int64) int32 { return int32(min(max(n, 0), math.MaxInt32)) }
