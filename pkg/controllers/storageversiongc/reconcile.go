package storageversiongc

import (
	"context"
	"errors"
	"fmt"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storageversion"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// entry is what a StorageVersion records of one API server.
type entry = apiserverinternalv1alpha1.ServerStorageVersion

// reconcileLease removes the entries of an API server from all StorageVersions, unless its lease
// is there again.
func (c *collector) reconcileLease(ctx context.Context, id string) error {
	// Listed first, so that what an API server writes after the answer about its lease is not of the version listed.
	all, err := c.Client.InternalV1alpha1().StorageVersions().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing StorageVersions: %w", err)
	}
	exists, valid, err := c.servers.read(ctx, id)
	if valid && !c.servers.cached(id) {
		c.leaseQueue.AddAfter(id, reconcile.RecheckAfter)
	}
	if exists || err != nil {
		return err
	}
	var failures []error
	for i := range all.Items {
		sv := &all.Items[i]
		kept := without(sv.Status.StorageVersions, map[string]bool{id: true})
		failures = append(failures, c.keep(ctx, sv, kept))
	}
	return errors.Join(failures...)
}

// reconcileStorageVersion removes the entries of a StorageVersion whose API servers do not exist.
func (c *collector) reconcileStorageVersion(ctx context.Context, name string) error {
	sv, err := c.Client.InternalV1alpha1().StorageVersions().Get(ctx, name, metav1.GetOptions{})
	if controller.Absent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading StorageVersion %s: %w", name, err)
	}
	gone := map[string]bool{}
	for i := range sv.Status.StorageVersions {
		id := sv.Status.StorageVersions[i].APIServerID
		valid, err := c.servers.valid(ctx, id)
		if err != nil {
			return err
		}
		gone[id] = !valid
		if valid && !c.servers.cached(id) {
			c.storageVersionQueue.AddAfter(name, reconcile.RecheckAfter)
		}
	}
	return c.keep(ctx, sv, without(sv.Status.StorageVersions, gone))
}

// without returns the entries of a StorageVersion without those of API servers that are gone.
func without(entries []entry, gone map[string]bool) []entry {
	var kept []entry
	for i := range entries {
		if !gone[entries[i].APIServerID] {
			kept = append(kept, entries[i])
		}
	}
	return kept
}

// keep reduces a StorageVersion that was read live to some of its entries, and deletes it if
// these are none.
func (c *collector) keep(ctx context.Context, sv *apiserverinternalv1alpha1.StorageVersion, kept []entry) error {
	if len(kept) == len(sv.Status.StorageVersions) {
		return nil
	}
	storageVersions := c.Client.InternalV1alpha1().StorageVersions()
	if len(kept) == 0 {
		err := storageVersions.Delete(ctx, sv.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &sv.UID, ResourceVersion: &sv.ResourceVersion},
		})
		if apierrors.IsNotFound(err) {
			c.storageVersionQueue.AddAfter(sv.Name, reconcile.RecheckAfter) // an admission webhook may say so, too
			return nil
		}
		if err != nil {
			return fmt.Errorf("deleting StorageVersion %s: %w", sv.Name, err)
		}
		klog.FromContext(ctx).V(2).Info("Deleted a StorageVersion without API servers", "storageVersion", sv.Name)
		return nil
	}
	dropped := len(sv.Status.StorageVersions) - len(kept)
	sv.Status.StorageVersions = kept
	storageversion.SetCommonEncodingVersion(sv)
	if _, err := storageVersions.UpdateStatus(ctx, sv, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("updating the status of StorageVersion %s: %w", sv.Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Removed API servers from a StorageVersion",
		"storageVersion", sv.Name, "removed", dropped)
	return nil
}
