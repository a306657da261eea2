package claims

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// Reader reads the leases that can carry claims, see rule 11 of the package comment.
type Reader struct {
	// Leases accesses the API server.
	Leases coordinationv1client.LeasesGetter
	// Main is the lease of processes that do not support claims.
	Main Lease
}

// Read returns the leases that are marked as this program's, in the namespaces where they count. It adds the main lease
// if that is neither own, the lease that is asked for, nor marked: its holder may not support claims. The leases are at
// least as new as written, the resource version of own with the claim of this process, or, if that is empty, as of when
// the read began. A namespace that cannot be read is an error, also if that is forbidden: what is claimed there is not
// known.
func (r *Reader) Read(ctx context.Context, own Lease, written string) ([]coordinationv1.Lease, error) {
	if own.Namespace != metav1.NamespaceSystem {
		written = "" // the entry of this namespace can be newer than the claim, and both have to be there before the read
	}
	marked, err := r.directory(ctx, own.Namespace, written)
	if err != nil {
		return nil, err
	}
	for _, namespace := range namespacesIn(marked) {
		list, err := r.list(ctx, namespace, written)
		if err != nil {
			return nil, err
		}
		marked = append(marked, list...)
	}
	if own == r.Main || slices.ContainsFunc(marked, func(l coordinationv1.Lease) bool { return leaseOf(&l) == r.Main }) {
		return marked, nil
	}
	main, err := r.Leases.Leases(r.Main.Namespace).Get(ctx, r.Main.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return marked, nil
	case err != nil:
		return nil, fmt.Errorf("reading the claim of the main lease: %w", err)
	}
	return append(marked, *main), nil
}

// directory returns the marked leases in kube-system, once there is an entry of a namespace among them. kube-system
// itself needs none.
func (r *Reader) directory(ctx context.Context, namespace, written string) ([]coordinationv1.Lease, error) {
	marked, err := r.list(ctx, metav1.NamespaceSystem, written)
	if err != nil || namespace == metav1.NamespaceSystem || slices.Contains(namespacesIn(marked), namespace) {
		return marked, err
	}
	_, err = r.Leases.Leases(metav1.NamespaceSystem).Create(ctx, entryOf(namespace), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("telling other processes of the leases in namespace %s: %w", namespace, err)
	}
	if marked, err = r.list(ctx, metav1.NamespaceSystem, written); err != nil {
		return nil, err
	}
	if !slices.Contains(namespacesIn(marked), namespace) {
		return nil, fmt.Errorf("telling other processes of the leases in namespace %s: lease %s is there with other labels or annotations",
			namespace, leaseOf(entryOf(namespace)))
	}
	return marked, nil
}

// list asks for the marked leases of a namespace, not older than a resource version. A consistent read would take longer:
// when anything has been written after the last lease, the API server waits until etcd confirms that its cache is
// current, for which it asks every tenth of a second.
func (r *Reader) list(ctx context.Context, namespace, written string) ([]coordinationv1.Lease, error) {
	options := metav1.ListOptions{LabelSelector: labels.SelectorFromSet(Labels()).String(), ResourceVersion: written}
	if written != "" {
		options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	list, err := r.Leases.Leases(namespace).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("reading the claims of other leases in namespace %s: %w", namespace, err)
	}
	return list.Items, nil
}

// entryOf is the entry of a namespace in the directory: a lease in kube-system that nobody holds.
func entryOf(namespace string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace:   metav1.NamespaceSystem,
		Name:        namespace + ".leases.config.kcmd.dev",
		Labels:      Labels(),
		Annotations: map[string]string{NamespaceAnnotation: namespace},
	}}
}

// namespacesIn are the other namespaces that the leases in kube-system name as those of leases, sorted.
func namespacesIn(marked []coordinationv1.Lease) []string {
	var all []string
	for _, l := range marked {
		if n := l.Annotations[NamespaceAnnotation]; n != "" && n != metav1.NamespaceSystem {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
