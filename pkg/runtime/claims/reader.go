package claims

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"kcmd.dev/pkg/controller"
)

// Reader reads the leases that can carry claims, see rule 11 of the package comment.
type Reader struct {
	// Leases accesses the API server.
	Leases coordinationv1client.LeasesGetter
	// Main is the lease of processes that do not support claims.
	Main Lease
	// DryRun has the API server judge the entry of a namespace without storing it. A Read then shows only whether this
	// process may do what another one would do.
	DryRun bool
}

// Read returns the leases that are marked as this program's, in the namespaces where they count. It adds the main lease
// if that is neither own, the lease that is asked for, nor marked: its holder may not support claims. The leases are at
// least as new as written, the resource version of own with the claim of this process, or, if that is empty, as of when
// the read began. A namespace that cannot be read is an error, also if that is forbidden: what is claimed there is not
// known.
func (r *Reader) Read(ctx context.Context, own Lease, written string) ([]coordinationv1.Lease, error) {
	marked, err := r.directory(ctx, own.Namespace, written)
	if err != nil {
		return nil, err
	}
	written = bothThere(written, own.Namespace, marked)
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
	case controller.Absent(err):
		return marked, nil
	case err != nil:
		return nil, fmt.Errorf("reading the claim of the main lease: %w", err)
	}
	return append(marked, *main), nil
}

// Announce makes sure that there is an entry of a namespace, also if somebody has deleted the one that a Read has made.
func (r *Reader) Announce(ctx context.Context, namespace string) error {
	_, err := r.directory(ctx, namespace, "")
	return err
}

// directory returns the marked leases in kube-system, once there is an entry of a namespace among them. kube-system
// itself needs none. They are at least as new as written.
func (r *Reader) directory(ctx context.Context, namespace, written string) ([]coordinationv1.Lease, error) {
	marked, err := r.list(ctx, metav1.NamespaceSystem, written)
	if err != nil || namespace == metav1.NamespaceSystem || slices.Contains(namespacesIn(marked), namespace) {
		return marked, err
	}
	entry, options := entryOf(namespace), metav1.CreateOptions{}
	if r.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err = r.Leases.Leases(metav1.NamespaceSystem).Create(ctx, entry, options)
	switch {
	case err == nil && r.DryRun:
		return append(marked, *entry), nil
	case err != nil && !apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("telling other processes of the leases in namespace %s: %w", namespace, err)
	}
	if marked, err = r.list(ctx, metav1.NamespaceSystem, ""); err != nil {
		return nil, err
	}
	if !slices.Contains(namespacesIn(marked), namespace) {
		return nil, fmt.Errorf("telling other processes of the leases in namespace %s: "+
			"lease %s is there with other labels or annotations", namespace, leaseOf(entry))
	}
	return marked, nil
}

// bothThere returns the resource version at which both the claim of this process, which was written at the given one,
// and the entry of its namespace exist; without an entry among the marked leases, that of the claim. Of two processes,
// the one with the later version reads the claim and the entry of the other. An empty version requires a consistent read.
func bothThere(written, namespace string, marked []coordinationv1.Lease) string {
	n := slices.IndexFunc(marked, func(l coordinationv1.Lease) bool {
		return l.Annotations[NamespaceAnnotation] == namespace
	})
	if n < 0 {
		return written
	}
	order, err := resourceversion.CompareResourceVersion(marked[n].ResourceVersion, written)
	switch {
	case err != nil:
		return ""
	case order > 0:
		return marked[n].ResourceVersion
	}
	return written
}

// list asks for the marked leases of a namespace, not older than a resource version. A consistent read would take
// longer: when anything has been written after the last lease, the API server waits until etcd confirms that its cache
// is current, for which it asks every tenth of a second.
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
