package index

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// ByController finds the objects of one kind by controller.
type ByController[T any] struct {
	indexer cache.Indexer
	name    string // of the index
	objects string // how an error names them
}

// Pods finds pods by controller.
type Pods = ByController[*corev1.Pod]

// Jobs finds Jobs by controller.
type Jobs = ByController[*batchv1.Job]

// ControllerRevisions finds ControllerRevisions by controller.
type ControllerRevisions = ByController[*appsv1.ControllerRevision]

// NewPods adds the index to the pod informer if needed.
func NewPods(informer cache.SharedIndexInformer) Pods {
	return newByController[*corev1.Pod](informer, podsByController, "pods")
}

// NewJobs adds the index to the Job informer if needed.
func NewJobs(informer cache.SharedIndexInformer) Jobs {
	return newByController[*batchv1.Job](informer, "jobController", "jobs")
}

// NewControllerRevisions adds the index to the ControllerRevision informer if needed.
func NewControllerRevisions(informer cache.SharedIndexInformer) ControllerRevisions {
	return newByController[*appsv1.ControllerRevision](informer, "controllerRevisionController", "controller revisions")
}

// podsByController is the name of the index of pods by controller.
const podsByController = "podController"

func newByController[T any](informer cache.SharedIndexInformer, name, objects string) ByController[T] {
	Ensure(informer, name, controllerKeys)
	return ByController[T]{indexer: informer.GetIndexer(), name: name, objects: objects}
}

// controllerKeys is the index function: the keys are <namespace>/<kind>/<name>/<uid> of the controller, and
// <namespace> for orphans.
func controllerKeys(obj any) ([]string, error) {
	object, err := meta.Accessor(obj)
	if err != nil {
		return nil, fmt.Errorf("indexing by controller: %w", err)
	}
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil {
		return []string{object.GetNamespace()}, nil
	}
	return []string{controllerKey(object.GetNamespace(), ref.Kind, ref.Name, ref.UID)}, nil
}

func controllerKey(namespace, kind, name string, uid types.UID) string {
	return namespace + "/" + kind + "/" + name + "/" + string(uid)
}

// OwnedBy returns the objects that the owner, of the kind, controls. It returns an error if the
// owner has no namespace, name or UID, since the key would then be that of orphans.
func (b ByController[T]) OwnedBy(kind string, owner metav1.Object) ([]T, error) {
	if kind == "" || owner.GetNamespace() == "" || owner.GetName() == "" || owner.GetUID() == "" {
		return nil, fmt.Errorf("looking up %s: of %q %s/%s (%s): kind, namespace, name and uid are required",
			b.objects, kind, owner.GetNamespace(), owner.GetName(), owner.GetUID())
	}
	return Append[T](nil, b.indexer, b.name, controllerKey(owner.GetNamespace(), kind, owner.GetName(), owner.GetUID()))
}

// Orphans returns the objects of a namespace that have no controller.
func (b ByController[T]) Orphans(namespace string) ([]T, error) {
	return Append[T](nil, b.indexer, b.name, namespace)
}

// OwnedByOrOrphans returns the objects that the owner controls or might adopt.
func (b ByController[T]) OwnedByOrOrphans(kind string, owner metav1.Object) ([]T, error) {
	owned, err := b.OwnedBy(kind, owner)
	if err != nil {
		return nil, err
	}
	return Append(owned, b.indexer, b.name, owner.GetNamespace())
}
