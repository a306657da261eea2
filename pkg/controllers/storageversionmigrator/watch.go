package storageversionmigrator

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// resourceIndex indexes migrations by the resource that is migrated.
const resourceIndex = "migratedResource"

func resourceKeys(obj any) ([]string, error) {
	migration, ok := obj.(*svm)
	if !ok {
		return nil, nil
	}
	return []string{resourceOf(migration).String()}, nil
}

// resourceOf is the resource that is migrated.
func resourceOf(migration *svm) schema.GroupResource {
	return schema.GroupResource(migration.Spec.Resource)
}

// watch queues what changes in all loops: each knows from the status whether it is its turn.
func (c *migrationController) watch(migrations cache.SharedIndexInformer) {
	watch.Objects(migrations, watch.Funcs[*svm]{
		Add: c.seen,
		Update: func(lane reconcile.Lane, old, migration *svm) {
			c.seen(lane, migration)
			// Another resource means that the migration was replaced while the watch was interrupted.
			if of := resourceOf(old); of != resourceOf(migration) {
				c.runnerQueue.Enqueue(lane, of)
			}
		},
		Delete: c.deleted,
	})
}

func (c *migrationController) seen(lane reconcile.Lane, migration *svm) {
	c.runnerQueue.Enqueue(lane, resourceOf(migration))
	c.versionQueue.Enqueue(lane, migration.Name)
	c.migratorQueue.Enqueue(lane, migration.Name)
}

// deleted lets the next migration of the resource start. The migrator releases what it holds.
func (c *migrationController) deleted(migration *svm) {
	c.written.Forget(migration)
	c.runnerQueue.Add(resourceOf(migration))
	c.migratorQueue.Add(migration.Name)
}
