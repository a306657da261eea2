// Package storageversiongc removes API servers that no longer exist from StorageVersions.
//
// In a StorageVersion each API server records the version in which it stores a resource. It
// proves that it exists by a lease in kube-system, its identity.
//
// The model, in rules:
//
//  1. An entry is valid as long as there is the lease that its API server ID names, with the
//     identity label. A StorageVersion of which no entry is left is deleted; one that never had
//     any is not touched.
//  2. When a lease is deleted, the entries of its API server are removed from all
//     StorageVersions. When a StorageVersion changes, and at the start, its own entries are
//     examined if one of them has no cached lease.
//  3. That a lease exists may be concluded from the cache, since its deletion is an event. That
//     it does not exist is read live. An answer is used again for a second, unless the lease has
//     appeared in the cache: the loss of an API server concerns every StorageVersion.
//  4. Every write is of a StorageVersion that was read live, before the leases were, and only of the
//     version read: an API server that writes between the two keeps its entry. One that comes back
//     within the second of rule 3 may lose an entry, until it writes it again, which API servers do
//     regularly.
//
// Of all leases only those with the identity label in kube-system are cached.
//
// Behaviour: docs/specs/storageversion-garbage-collector-controller.md.
package storageversiongc

import (
	"context"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	identityLabel = "apiserver.kubernetes.io/identity"
	identityValue = "kube-apiserver"
)

// identities selects the leases of API servers.
var identities = controller.Filter{
	Namespace: metav1.NamespaceSystem, LabelSelector: identityLabel + "=" + identityValue,
}

// Descriptor describes storageversion-garbage-collector-controller.
func Descriptor() controller.Descriptor {
	leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
	return controller.DescribeFixed(controller.Descriptor{
		Name:           "storageversion-garbage-collector-controller",
		Aliases:        []string{"storage-version-gc"},
		ServiceAccount: "storage-version-garbage-collector",
		ClusterScoped:  true,
		Gate:           gates.StorageVersionAPI, // which needs APIServerIdentity
		Requires: []schema.GroupVersionResource{
			apiserverinternalv1alpha1.SchemeGroupVersion.WithResource("storageversions"),
			leases,
		},
		Partial: []schema.GroupVersionResource{leases},
	}, newCollector)
}

type collector struct {
	controller.Env
	servers         *servers
	leases          *reconcile.Loop[string]
	storageVersions *reconcile.Loop[string]

	leaseQueue, storageVersionQueue reconcile.Queue[string] // the loops, except in tests
}

func newCollector(env controller.Env) (*collector, error) {
	leases := env.Informers.Filtered(identities).Coordination().V1().Leases()
	c := &collector{Env: env, servers: newServers(env.Client, leases.Lister(), env.Clock)}
	oneWorker := func(queue string) reconcile.Options[string] {
		return reconcile.Options[string]{Queue: queue, Workers: 1}
	}
	c.leases = reconcile.New(env, oneWorker("storage_version_garbage_collector_leases"), c.reconcileLease)
	c.storageVersions = reconcile.New(env,
		oneWorker("storage_version_garbage_collector_storageversions"), c.reconcileStorageVersion)
	c.leaseQueue, c.storageVersionQueue = c.leases, c.storageVersions
	c.watch(leases.Informer(), env.Informers.Internal().V1alpha1().StorageVersions().Informer())
	return c, nil
}

// Run implements controller.Controller.
func (c *collector) Run(ctx context.Context) error {
	return reconcile.Run(ctx, c.Env, nil, c.leases.Run, c.storageVersions.Run)
}
