package index

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// replicaSetsByController is the name of the index of ReplicaSets by the UID of their
// controller. Orphans are indexed under <namespace>/, which no UID can equal.
const replicaSetsByController = "controllerUID"

// controllerUIDKeys is the index function of replicaSetsByController.
func controllerUIDKeys(obj any) ([]string, error) {
	object, err := meta.Accessor(obj)
	if err != nil {
		return nil, fmt.Errorf("indexing by controller: %w", err)
	}
	if ref := metav1.GetControllerOfNoCopy(object); ref != nil {
		return []string{string(ref.UID)}, nil
	}
	return []string{orphanKey(object.GetNamespace())}, nil
}

func orphanKey(namespace string) string { return namespace + "/" }

// ReplicaSets finds ReplicaSets by controller.
type ReplicaSets struct{ indexer cache.Indexer }

// NewReplicaSets adds the index to the ReplicaSet informer if needed.
func NewReplicaSets(informer cache.SharedIndexInformer) ReplicaSets {
	Ensure(informer, replicaSetsByController, controllerUIDKeys)
	return ReplicaSets{informer.GetIndexer()}
}

// OwnedBy returns the ReplicaSets of a namespace that the owner with the UID controls.
func (r ReplicaSets) OwnedBy(namespace string, owner types.UID) ([]*appsv1.ReplicaSet, error) {
	owned, err := Append[*appsv1.ReplicaSet](nil, r.indexer, replicaSetsByController, string(owner))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(owned, func(rs *appsv1.ReplicaSet) bool { return rs.Namespace != namespace }), nil
}

// OwnedByOrOrphans returns the ReplicaSets that an owner controls or might adopt.
func (r ReplicaSets) OwnedByOrOrphans(owner metav1.Object) ([]*appsv1.ReplicaSet, error) {
	owned, err := r.OwnedBy(owner.GetNamespace(), owner.GetUID())
	if err != nil {
		return nil, err
	}
	return Append(owned, r.indexer, replicaSetsByController, orphanKey(owner.GetNamespace()))
}
