package index

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// podsByController is the name of the index of pods by controller. Its keys are
// <namespace>/<kind>/<name>/<uid> of the controller, and <namespace> for orphans.
const podsByController = "podController"

// controllerKeys is the index function of podsByController, and of the same index of other kinds.
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

// Pods finds pods by controller.
type Pods struct{ indexer cache.Indexer }

// NewPods adds the index to the pod informer if needed.
func NewPods(informer cache.SharedIndexInformer) Pods {
	Ensure(informer, podsByController, controllerKeys)
	return Pods{informer.GetIndexer()}
}

// OwnedBy returns the pods that the owner, of the kind, controls. It returns an error if the
// owner has no namespace, name or UID, since the key would then be that of orphans.
func (p Pods) OwnedBy(kind string, owner metav1.Object) ([]*corev1.Pod, error) {
	return ownedBy[*corev1.Pod](p.indexer, podsByController, "pods", kind, owner)
}

// ownedBy returns the objects that an owner, of the kind, controls, from an index with the keys of controllerKeys.
// objects is how an error names them.
func ownedBy[T any](indexer cache.Indexer, name, objects, kind string, owner metav1.Object) ([]T, error) {
	if err := identified(kind, owner); err != nil {
		return nil, fmt.Errorf("looking up %s: %w", objects, err)
	}
	key := controllerKey(owner.GetNamespace(), kind, owner.GetName(), owner.GetUID())
	return Append[T](nil, indexer, name, key)
}

// identified returns an error if a part of the owner's key is missing.
func identified(kind string, owner metav1.Object) error {
	if kind == "" || owner.GetNamespace() == "" || owner.GetName() == "" || owner.GetUID() == "" {
		return fmt.Errorf("of %q %s/%s (%s): kind, namespace, name and uid are required",
			kind, owner.GetNamespace(), owner.GetName(), owner.GetUID())
	}
	return nil
}

// Orphans returns the pods of a namespace that have no controller.
func (p Pods) Orphans(namespace string) ([]*corev1.Pod, error) {
	return Append[*corev1.Pod](nil, p.indexer, podsByController, namespace)
}

// OwnedByOrOrphans returns the pods that the owner controls or might adopt.
func (p Pods) OwnedByOrOrphans(kind string, owner metav1.Object) ([]*corev1.Pod, error) {
	owned, err := p.OwnedBy(kind, owner)
	if err != nil {
		return nil, err
	}
	return Append(owned, p.indexer, podsByController, owner.GetNamespace())
}
