package storageversionmigrator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// discoveryGrace is how old a migration has to be until its resource counts as not served. It is
// twice the time between two refreshes of what the API server serves.
const discoveryGrace = time.Minute

// errNotServed tells that there is no such resource.
var errNotServed = errors.New("the API server does not serve the resource")

// needed are the verbs that a resource has to support to be migrated.
var needed = []string{"update", "patch", "list"}

// find returns the version in which a resource is read and rewritten, errNotServed if there is none.
func (c *migrationController) find(migrated schema.GroupResource) (schema.GroupVersionResource, error) {
	found, err := c.Mapper.ResourcesFor(migrated.WithVersion(""))
	if err != nil && !meta.IsNoMatchError(err) {
		return schema.GroupVersionResource{}, fmt.Errorf("finding the versions of %s: %w", migrated, err)
	}
	for _, resource := range found {
		if resource.GroupResource() == migrated {
			return resource, nil
		}
	}
	return schema.GroupVersionResource{}, errNotServed
}

// isYoung reports whether what a migration needs may still appear.
func (c *migrationController) isYoung(migration *migrationv1beta1.StorageVersionMigration) bool {
	return c.Clock.Since(migration.CreationTimestamp.Time) < discoveryGrace
}

// entryOf returns the entry of a resource in a discovery document, nil if there is none.
func entryOf(document *metav1.APIResourceList, resource string) *metav1.APIResource {
	for i := range document.APIResources {
		if document.APIResources[i].Name == resource {
			return &document.APIResources[i]
		}
	}
	return nil
}

// canBeMigrated reports whether a resource supports what a migration needs.
func canBeMigrated(resource *metav1.APIResource) bool {
	return !slices.ContainsFunc(needed, func(verb string) bool { return !slices.Contains(resource.Verbs, verb) })
}
