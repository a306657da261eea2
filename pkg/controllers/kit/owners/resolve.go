package owners

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Resolve returns the owner that a controller reference refers to, and false if the reference
// is nil or of another kind, or if no owner of that name and UID exists. get returns an owner
// by name from the namespace of the dependent.
func Resolve[T metav1.Object](ref *metav1.OwnerReference, kind string, get func(name string) (T, error)) (T, bool) {
	var none T
	if ref == nil || ref.Kind != kind {
		return none, false
	}
	owner, err := get(ref.Name)
	if err != nil || owner.GetUID() != ref.UID {
		return none, false
	}
	return owner, true
}

// SameController reports whether two states of an object have the same controller
// reference, or none.
func SameController(a, b metav1.Object) bool {
	was, is := metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b)
	if was == nil || is == nil {
		return was == is
	}
	return was.UID == is.UID && was.Kind == is.Kind && was.Name == is.Name && was.APIVersion == is.APIVersion &&
		ptr.Equal(was.BlockOwnerDeletion, is.BlockOwnerDeletion)
}
