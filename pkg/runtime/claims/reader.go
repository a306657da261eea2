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
// that is neither own nor marked: its holder may not support claims. The read is consistent:
// it shows every write that was answered before it began.
func (r *Reader) Read(ctx context.Context, own Lease) ([]coordinationv1.Lease, error) {
	list, err := r.list(ctx, own.Namespace)
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

// list asks for the marked leases, without a resource version: that is a consistent read.
func (r *Reader) list(ctx context.Context, namespace string) (*coordinationv1.LeaseList, error) {
	options := metav1.ListOptions{LabelSelector: labels.SelectorFromSet(Labels()).String()}
	if !r.narrow.Load() {
		list, err := r.Leases.Leases(metav1.NamespaceAll).List(ctx, options)
		if !apierrors.IsForbidden(err) {
			return list, err
		}
		r.narrow.Store(true)
	}
	return r.Leases.Leases(namespace).List(ctx, options)
}
