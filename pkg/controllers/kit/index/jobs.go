package index

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// jobsByController is the name of the index of Jobs by controller, with the keys of
// podsByController.
const jobsByController = "jobController"

// Jobs finds Jobs by controller.
type Jobs struct{ indexer cache.Indexer }

// NewJobs adds the index to the Job informer if needed.
func NewJobs(informer cache.SharedIndexInformer) Jobs {
	Ensure(informer, jobsByController, controllerKeys)
	return Jobs{informer.GetIndexer()}
}

// OwnedBy returns the Jobs that the owner, of the kind, controls. It returns an error if the
// owner has no namespace, name or UID.
func (j Jobs) OwnedBy(kind string, owner metav1.Object) ([]*batchv1.Job, error) {
	return ownedBy[*batchv1.Job](j.indexer, jobsByController, "jobs", kind, owner)
}
