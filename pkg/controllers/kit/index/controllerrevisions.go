package index

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// controllerRevisionsByController is the name of the index of ControllerRevisions by
// controller. Its keys are those of podsByController.
const controllerRevisionsByController = "controllerRevisionController"

// ControllerRevisions finds ControllerRevisions by controller.
type ControllerRevisions struct{ indexer cache.Indexer }

// NewControllerRevisions adds the index to the ControllerRevision informer if needed.
func NewControllerRevisions(informer cache.SharedIndexInformer) ControllerRevisions {
	Ensure(informer, controllerRevisionsByController, controllerKeys)
	return ControllerRevisions{informer.GetIndexer()}
}

// OwnedByOrOrphans returns the ControllerRevisions of the namespace of the owner that the
// owner, of the kind, controls or might adopt. It returns an error if the owner has no
// namespace, name or UID.
func (r ControllerRevisions) OwnedByOrOrphans(kind string, owner metav1.Object) ([]*appsv1.ControllerRevision, error) {
	owned, err := ownedBy[*appsv1.ControllerRevision](
		r.indexer, controllerRevisionsByController, "controller revisions", kind, owner)
	if err != nil {
		return nil, err
	}
	return Append(owned, r.indexer, controllerRevisionsByController, owner.GetNamespace())
}
