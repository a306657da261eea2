package index

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// controllerRevisionsByController is the name of the index of ControllerRevisions by
// controller. Its keys are those of PodsByController.
const controllerRevisionsByController = "controllerRevisionController"

// ControllerRevisions finds ControllerRevisions by controller.
type ControllerRevisions struct{ indexer cache.Indexer }

// NewControllerRevisions adds the index to the ControllerRevision informer if needed.
func NewControllerRevisions(informer cache.SharedIndexInformer) (ControllerRevisions, error) {
	if err := Ensure(informer, controllerRevisionsByController, ControllerKeys); err != nil {
		return ControllerRevisions{}, err
	}
	return ControllerRevisions{informer.GetIndexer()}, nil
}

// OwnedByOrOrphans returns the ControllerRevisions of the namespace of the owner that the
// owner, of the kind, controls or might adopt. It fails if the owner lacks a namespace,
// name or UID.
func (r ControllerRevisions) OwnedByOrOrphans(kind string, owner metav1.Object) ([]*appsv1.ControllerRevision, error) {
	if err := identified(kind, owner); err != nil {
		return nil, fmt.Errorf("looking up controller revisions: %w", err)
	}
	key := controllerKey(owner.GetNamespace(), kind, owner.GetName(), owner.GetUID())
	owned, err := appendFrom[*appsv1.ControllerRevision](nil, r.indexer, controllerRevisionsByController, key)
	if err != nil {
		return nil, err
	}
	return appendFrom(owned, r.indexer, controllerRevisionsByController, owner.GetNamespace())
}
