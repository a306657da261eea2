package simulation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// Namespaces plays the users and the controller of namespaces that come and go. A finalizer in the metadata stands in
// for that of the spec.
type Namespaces struct {
	*World
	// Names are the names that they can have.
	Names []string
	// former are those that the API server may still see instead of their successors.
	former map[string]bool
}

const namespaceFinalizer = "example.com/kubernetes"

// Refusal is for World.Refuse. It refuses to create objects in a namespace that does not exist or terminates. While the
// world is Faulty, a new namespace may be taken for its predecessor once.
func (n *Namespaces) Refusal(object runtime.Object) error {
	name := accessor(object).GetNamespace()
	if name == "" {
		return nil
	}
	ns, ok := Get[*corev1.Namespace](n.World, "", name)
	if !ok {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	isStale := n.former[name] && n.Faulty
	delete(n.former, name)
	if ns.DeletionTimestamp == nil && !isStale {
		return nil
	}
	resource, _ := kindOf(object)
	err := apierrors.NewForbidden(resource.GroupResource(), accessor(object).GetName(),
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", name))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

// User creates a namespace, or deletes one.
func (n *Namespaces) User() {
	name := n.Names[n.Rand.IntN(len(n.Names))]
	ns, ok := Get[*corev1.Namespace](n.World, "", name)
	switch {
	case !ok:
		created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{namespaceFinalizer}}}
		created.Status.Phase = corev1.NamespaceActive
		n.Create(created)
	case ns.DeletionTimestamp == nil:
		Change(n.World, ns, func(ns *corev1.Namespace) { ns.Status.Phase = corev1.NamespaceTerminating })
		ns, _ = Get[*corev1.Namespace](n.World, "", name)
		n.Delete(ns, nil)
	}
}

// Act is what the namespace controller does next, or all that it has to do. It reports whether it did anything.
func (n *Namespaces) Act(all bool) (did bool) {
	for _, ns := range All[*corev1.Namespace](n.World) {
		if ns.DeletionTimestamp == nil || !all && !n.OneIn(3) {
			continue
		}
		did = true
		if n.deleteContent(ns.Name, all) {
			continue
		}
		Change(n.World, ns, func(ns *corev1.Namespace) { ns.Finalizers = nil })
		if n.former == nil {
			n.former = map[string]bool{}
		}
		n.former[ns.Name] = n.OneIn(2)
	}
	return did
}

// deleteContent deletes some of what is in a namespace, or everything, and reports whether anything was there.
func (n *Namespaces) deleteContent(namespace string, all bool) (did bool) {
	for _, resource := range n.server.sorted() {
		objects := n.server.of(resource).objects
		for _, name := range sortedNames(objects) {
			if name.Namespace != namespace {
				continue
			}
			did = true
			if all || n.OneIn(2) {
				n.Delete(objects[name], ptr.To[int64](0))
			}
		}
	}
	return did
}
