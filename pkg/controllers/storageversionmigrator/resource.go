package storageversionmigrator

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// discoveryGrace is how long what a migration needs has to be absent until the migration fails. It
// is twice the time between two refreshes of what the API server serves.
const discoveryGrace = time.Minute

// errNotServed tells that there is no such resource.
var errNotServed = errors.New("the API server does not serve the resource")

// errAbsent tells that the API server has not served a resource for so long that a migration fails.
var errAbsent = errors.New("the API server has not served the resource for a while")

// needed are the verbs that a resource has to support to be migrated.
var needed = []string{"update", "patch", "list"}

// target is a resource in the version in which it is read and rewritten, and its kind.
type target struct {
	resource schema.GroupVersionResource
	kind     schema.GroupVersionKind
}

// tolerate returns the error that a look at the resource of a migration ended with, nil if none. That the
// API server does not serve it is a reason to retry at first, and errAbsent if it lasts: an API server
// that has just started does not know custom resources yet.
func (c *migrationController) tolerate(migration *svm, err error) error {
	if !errors.Is(err, errNotServed) {
		c.absences.forget(migration.Name)
		return err
	}
	now := c.Clock.Now()
	if now.Sub(c.absences.since(migration, now)) < discoveryGrace {
		return reconcile.Requeue(err)
	}
	return errAbsent
}

// find returns where a resource is read and rewritten, errNotServed if it is not served.
func (c *migrationController) find(migrated schema.GroupResource) (target, error) {
	found, err := c.Mapper.ResourcesFor(migrated.WithVersion(""))
	if err != nil && !meta.IsNoMatchError(err) {
		return target{}, fmt.Errorf("finding the versions of %s: %w", migrated, err)
	}
	for _, resource := range found {
		if resource.GroupResource() != migrated {
			continue
		}
		kind, err := c.Mapper.KindFor(resource)
		switch {
		case meta.IsNoMatchError(err):
			return target{}, errNotServed
		case err != nil:
			return target{}, fmt.Errorf("finding the kind of %s: %w", resource, err)
		}
		return target{resource: resource, kind: kind}, nil
	}
	return target{}, errNotServed
}

// absence is that of the resource of a migration.
type absence struct {
	uid   types.UID // of the migration
	since time.Time
}

// absences remembers since when the resources of migrations are not served, by the names of the
// migrations.
type absences struct {
	mu  sync.Mutex
	all map[string]absence
}

func newAbsences() *absences { return &absences{all: map[string]absence{}} }

// since returns since when the resource of a migration is absent: now, if it was not so far.
func (a *absences) since(migration *svm, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, found := a.all[migration.Name]
	if !found || known.uid != migration.UID {
		known = absence{uid: migration.UID, since: now}
		a.all[migration.Name] = known
	}
	return known.since
}

func (a *absences) forget(migration string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, migration)
}

// isYoung reports whether what a migration needs may still appear.
func (c *migrationController) isYoung(migration *svm) bool {
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
