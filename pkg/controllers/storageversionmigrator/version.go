package storageversionmigrator

import (
	"context"
	"errors"
	"fmt"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// nowhere is a namespace that cannot exist: a list of it says what the newest resource version is,
// and returns no object.
const nowhere = "@fake:svm_ns!"

// determineVersion records the newest resource version of the migrated resource, once the migration
// runs: what has a higher one later is stored in the present way.
func (c *migrationController) determineVersion(ctx context.Context, name string) error {
	migration, found, err := c.get(name)
	if !found {
		c.absences.forget(name)
		return err
	}
	if !is(migration, migrationv1beta1.MigrationRunning) || isOver(migration) || migration.Status.ResourceVersion != "" {
		return nil
	}
	at, described, err := c.look(resourceOf(migration))
	switch err = c.tolerate(migration, err); {
	case errors.Is(err, errAbsent):
		return c.fail(ctx, migration, "resource does not exist in discovery")
	case err != nil:
		return err
	}
	resource := at.resource
	if !canBeMigrated(described) {
		return c.fail(ctx, migration, fmt.Sprintf("resource %q does not support discovery operations: %v", resource, needed))
	}
	version, err := c.newestVersion(ctx, resource, described.Namespaced)
	if err != nil {
		return fmt.Errorf("error getting latest resourceVersion for %s: %w", resource, err)
	}
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return c.fail(ctx, migration, fmt.Sprintf("latest resourceVersion for %s is not valid: %v", resource, err))
	}
	return c.update(ctx, migration, func(status *svmStatus) { status.ResourceVersion = version })
}

// look returns where a resource is read and rewritten and what discovery says about it, errNotServed if
// it is not served.
func (c *migrationController) look(migrated schema.GroupResource) (target, *metav1.APIResource, error) {
	at, err := c.find(migrated)
	if err != nil {
		return target{}, nil, err
	}
	described, err := c.describe(at.resource)
	return at, described, err
}

// describe returns what discovery says about a resource, errNotServed if there is no such group and
// version, which the REST mapper may know longer than the API server.
func (c *migrationController) describe(resource schema.GroupVersionResource) (*metav1.APIResource, error) {
	document, err := c.Discovery.ServerResourcesForGroupVersion(resource.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return nil, errNotServed
	}
	if err != nil {
		return nil, fmt.Errorf("reading the resources of %s: %w", resource.GroupVersion(), err)
	}
	described := entryOf(document, resource.Resource)
	if described == nil {
		return nil, fmt.Errorf("resource %q not found in discovery", resource)
	}
	return described, nil
}

// newestVersion returns the newest resource version of a resource.
func (c *migrationController) newestVersion(
	ctx context.Context, resource schema.GroupVersionResource, namespaced bool,
) (string, error) {
	list := c.Metadata.Resource(resource).List
	if namespaced {
		list = c.Metadata.Resource(resource).Namespace(nowhere).List
	}
	found, err := list(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	return found.ResourceVersion, nil
}
