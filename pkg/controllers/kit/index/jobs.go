package index

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// JobsByController is the name of the index of Jobs by controller, with the keys of
// PodsByController.
const JobsByController = "jobController"

// Jobs finds Jobs by controller.
type Jobs struct{ indexer cache.Indexer }

// NewJobs adds the index to the Job informer if needed.
func NewJobs(informer cache.SharedIndexInformer) (Jobs, error) {
	if err := Ensure(informer, JobsByController, ControllerKeys); err != nil {
		return Jobs{}, err
	}
	return Jobs{informer.GetIndexer()}, nil
}

// OwnedBy returns the Jobs that the owner, of the kind, controls. It fails if the owner
// lacks a namespace, name or UID.
func (j Jobs) OwnedBy(kind string, owner metav1.Object) ([]*batchv1.Job, error) {
	if err := identified(kind, owner); err != nil {
		return nil, fmt.Errorf("looking up jobs: %w", err)
	}
	key := controllerKey(owner.GetNamespace(), kind, owner.GetName(), owner.GetUID())
	return appendFrom[*batchv1.Job](nil, j.indexer, JobsByController, key)
}
