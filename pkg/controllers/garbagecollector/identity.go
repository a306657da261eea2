package garbagecollector

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// identity is where an object is claimed or known to be. An identity read out of an owner
// reference is a claim: the object with that UID can be of another kind, name or namespace.
type identity struct {
	apiVersion, kind, namespace, name string
	uid                               types.UID
}

func (i identity) String() string {
	return fmt.Sprintf("[%s/%s, namespace: %s, name: %s, uid: %s]", i.apiVersion, i.kind, i.namespace, i.name, i.uid)
}

// claimed is the identity that an owner reference claims, for an owner in the namespace.
func claimed(ref metav1.OwnerReference, namespace string) identity {
	return identity{apiVersion: ref.APIVersion, kind: ref.Kind, namespace: namespace, name: ref.Name, uid: ref.UID}
}

// matches reports that a reference has the coordinates of the identity. References have no
// namespace.
func (i identity) matches(ref metav1.OwnerReference) bool {
	return i == claimed(ref, i.namespace)
}

// elsewhere reports that the identity is in a namespace and not in that of a dependent,
// which therefore cannot be owned by it.
func (i identity) elsewhere(dependent identity) bool {
	return i.namespace != "" && i.namespace != dependent.namespace
}

// compare orders identities of one UID.
func (i identity) compare(other identity) int {
	return cmp.Or(
		cmp.Compare(i.kind, other.kind),
		cmp.Compare(i.apiVersion, other.apiVersion),
		cmp.Compare(i.namespace, other.namespace),
		cmp.Compare(i.name, other.name),
		cmp.Compare(i.uid, other.uid),
	)
}
