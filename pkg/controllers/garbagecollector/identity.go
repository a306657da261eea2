package garbagecollector

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// identity is the kind, namespace, name and UID of an object. An identity from an owner
// reference is a claim: the object with that UID can have another kind, name or namespace.
type identity struct {
	apiVersion, kind, namespace, name string
	uid                               types.UID
}

func (i identity) String() string {
	return fmt.Sprintf("[%s/%s, namespace: %s, name: %s, uid: %s]", i.apiVersion, i.kind, i.namespace, i.name, i.uid)
}

// ObjectName is by which the keys of queues are found, see reconcile.Loop.Keys.
func (i identity) ObjectName() types.NamespacedName {
	return types.NamespacedName{Namespace: i.namespace, Name: i.name}
}

// claimed returns the identity that an owner reference claims, for an owner in the namespace.
func claimed(ref metav1.OwnerReference, namespace string) identity {
	return identity{apiVersion: ref.APIVersion, kind: ref.Kind, namespace: namespace, name: ref.Name, uid: ref.UID}
}

// locatedAt returns the identity in the namespace in which its object is looked for. That of a virtual node is a guess:
// its kind may have none.
func (i identity) locatedAt(l location) identity {
	i.namespace = l.namespace
	return i
}

// matches reports whether a reference has the coordinates of the identity. References have no
// namespace.
func (i identity) matches(ref metav1.OwnerReference) bool {
	return i == claimed(ref, i.namespace)
}

// covers reports whether the absence of an object with the identity is that of one with the other identity: without a
// namespace, its kind has none, whatever the other one claims.
func (i identity) covers(other identity) bool {
	if i.namespace == "" {
		other.namespace = ""
	}
	return i == other
}

// elsewhere reports whether the identity is in a namespace other than that of a dependent,
// which it therefore cannot own.
func (i identity) elsewhere(dependent identity) bool {
	return i.namespace != "" && i.namespace != dependent.namespace
}

// compare orders identities with the same UID.
func (i identity) compare(other identity) int {
	return cmp.Or(
		cmp.Compare(i.kind, other.kind),
		cmp.Compare(i.apiVersion, other.apiVersion),
		cmp.Compare(i.namespace, other.namespace),
		cmp.Compare(i.name, other.name),
		cmp.Compare(i.uid, other.uid),
	)
}
