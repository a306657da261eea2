package replicaset

import (
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/pods"
)

// family finds the pods of ReplicaSets with the same controller.
type family struct {
	pods        index.Pods
	replicaSets index.ReplicaSets
}

// activeByNode counts, by node, the active pods that match the selector of a ReplicaSet of the
// family: those that the ReplicaSet controls and those without a controller. A pod counts once.
// A ReplicaSet without a controller has no family, not even itself.
func (f family) activeByNode(rs *appsv1.ReplicaSet) (map[string]int, error) {
	ref := metav1.GetControllerOfNoCopy(rs)
	if ref == nil {
		return nil, nil
	}
	siblings, err := f.replicaSets.OwnedBy(rs.Namespace, ref.UID)
	if err != nil {
		return nil, err
	}
	orphans, err := f.pods.Orphans(rs.Namespace)
	if err != nil {
		return nil, err
	}
	byNode := map[string]int{}
	counted := map[types.UID]bool{}
	var errs []error
	for _, sibling := range siblings {
		selector, err := selectorOf(sibling)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		owned, err := f.pods.OwnedBy("ReplicaSet", sibling)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		count(owned, selector, byNode, counted)
		count(orphans, selector, byNode, counted)
	}
	return byNode, errors.Join(errs...)
}

func count(candidates []*corev1.Pod, selector labels.Selector, byNode map[string]int, counted map[types.UID]bool) {
	for _, pod := range candidates {
		if !pods.IsActive(pod) || counted[pod.UID] || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		counted[pod.UID] = true
		byNode[pod.Spec.NodeName]++
	}
}
