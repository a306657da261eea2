package claims

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// Reader reads the leases that can carry claims.
type Reader struct {
	// Leases accesses the API server.
	Leases coordinationv1client.LeasesGetter
	// Main is the lease of processes that do not support claims.
	Main Lease

	narrow atomic.Bool // listing over all namespaces is forbidden
}

// Read returns the leases that are marked as this program's, of all namespaces or, if that is
// forbidden, of the namespace of own, the lease that is asked for. It adds the main lease if
// that is neither own nor marked: its holder may not support claims. The leases are at least as
// new as written, the resource version of own with the claim of this process, or, if that is
// empty, as of when the read began.
func (r *Reader) Read(ctx context.Context, own Lease, written string) ([]coordinationv1.Lease, error) {
	list, err := r.list(ctx, own.Namespace, written)
	if err != nil {
		return nil, fmt.Errorf("reading the claims of other leases: %w", err)
	}
	if own == r.Main || slices.ContainsFunc(list.Items, func(l coordinationv1.Lease) bool { return leaseOf(&l) == r.Main }) {
		return list.Items, nil
	}
	main, err := r.Leases.Leases(r.Main.Namespace).Get(ctx, r.Main.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return list.Items, nil
	case err != nil:
		return nil, fmt.Errorf("reading the claim of the main lease: %w", err)
	}
	return append(list.Items, *main), nil
}

// list asks for the marked leases, not older than a resource version. A consistent read would take longer: when
// anything has been written after the last lease, the API server waits until etcd confirms that its cache is current,
// for which it asks every tenth of a second.
func (r *Reader) list(ctx context.Context, namespace, written string) (*coordinationv1.LeaseList, error) {
	options := metav1.ListOptions{LabelSelector: labels.SelectorFromSet(Labels()).String(), ResourceVersion: written}
	if written != "" {
		options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	if !r.narrow.Load() {
		list, err := r.Leases.Leases(metav1.NamespaceAll).List(ctx, options)
		if !apierrors.IsForbidden(err) {
			return list, err
		}
		r.narrow.Store(true)
	}
	return r.Leases.Leases(namespace).List(ctx, options)
}
