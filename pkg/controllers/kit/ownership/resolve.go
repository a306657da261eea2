package ownership

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Resolve returns the owner that a controller reference leads to. get finds an owner of
// the kind by name in the namespace of the dependent. It is false if the reference is
// nil or of another kind, or if no owner of that name and UID exists.
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

// SameController reports that two states of an object have the same controller
// reference, or none.
func SameController(a, b metav1.Object) bool {
	was, is := metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b)
	if was == nil || is == nil {
		return was == is
	}
	return was.UID == is.UID && was.Kind == is.Kind && was.Name == is.Name && was.APIVersion == is.APIVersion &&
		sameBool(was.BlockOwnerDeletion, is.BlockOwnerDeletion)
}

func sameBool(a, b *bool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// Matching returns the owners whose selector matches the labels of an orphan. Selectors
// that are invalid or empty match nothing, and nothing matches an object without labels.
func Matching[T metav1.Object](orphan metav1.Object, owners []T, selectors *Selectors[T]) []T {
	set := labels.Set(orphan.GetLabels())
	if len(set) == 0 {
		return nil
	}
	var matching []T
	for _, owner := range owners {
		selector, err := selectors.Of(owner)
		if err == nil && !selector.Empty() && selector.Matches(set) {
			matching = append(matching, owner)
		}
	}
	return matching
}
