// Package storageversionmigrator carries out StorageVersionMigrations: it has the API server store
// every object of a resource again, in the current storage version and with the current encryption
// key.
//
// The model, in rules:
//
//  1. Three loops work on a migration in turn. The runner starts it and sets the condition Running.
//     The second loop sets status.resourceVersion: only objects up to that version may need to be
//     rewritten. The migrator rewrites them and sets the condition Succeeded or Failed. Then the
//     runner sets Running to False.
//  2. Of the migrations of a resource one runs at a time, the oldest first.
//  3. An object is rewritten by a server-side apply that contains only the UID and the resource
//     version from the cache. The API server then stores the object again if its encoding has
//     changed. No other part of the object is sent, and only its metadata is returned. If somebody
//     else has updated or deleted the object since, the request ends in a conflict, and the object
//     does not need to be rewritten. That it has changed is verified: an admission webhook may give
//     the same answer. The request never creates an object.
//  4. Objects come from a cache, shared with garbage-collector-controller if that watches the
//     resource. The cache has to have reached status.resourceVersion: then it should have every
//     object that may have to be rewritten. An object of a higher version has been rewritten already.
//     Before the migration succeeds, a live list shows what the cache has missed nevertheless: who
//     takes an old version or an old key away afterwards would lose these objects.
//  5. Objects are rewritten in the order of their names, so that one name says how far a migration
//     is. After an error that may pass, and after a restart of the controller, it goes on from
//     there. The successor in another process starts over, and skips what rule 4 says.
//  6. The configured rate limits how many objects all migrations together rewrite per second.
//  7. A CustomResourceDefinition shows that its objects are migrated by condition StorageMigrating.
//     After success its status.storedVersions become the storage version, unless its spec has
//     changed since the start.
//  8. A resource that the API server does not serve is waited for until it has been absent for a
//     minute: discovery may lag behind, and an API server that has just started does not know
//     custom resources yet.
//
// Behaviour: docs/specs/storage-version-migrator-controller.md.
package storageversionmigrator

import (
	"context"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	migrationlisters "k8s.io/client-go/listers/storagemigration/v1beta1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// The names of the three queues.
const (
	// controllerName is also the field manager of the objects that are rewritten.
	controllerName = "storage-version-migrator-controller"
	// runnerName is also the field manager of the status of CustomResourceDefinitions.
	runnerName  = "migration-runner-controller"
	versionName = "resource-version-controller"
)

// migrators is the number of migrations whose objects are rewritten at a time.
const migrators = 5

// migrationResource is that of migrations.
var migrationResource = migrationv1beta1.SchemeGroupVersion.WithResource("storageversionmigrations")

// Descriptor describes storage-version-migrator-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           controllerName,
		Aliases:        []string{"svm"},
		ServiceAccount: controllerName,
		Gate:           gates.StorageVersionMigrator,
		Requires:       []schema.GroupVersionResource{migrationResource},
		Limits:         controller.LimitFactors{QPS: 20, Burst: 100},
	}, configOf, newController)
}

// config is what the controller reads of the configuration.
type config struct {
	// rate is the number of objects that are rewritten per second; 0 means any number.
	rate float32
}

func configOf(c *controller.Config) config {
	return config{rate: *c.Controllers.StorageVersionMigrator.MigrationRate}
}

type migrationController struct {
	controller.Env
	migrations migrationlisters.StorageVersionMigrationLister
	byResource cache.Indexer // migrations, by resourceIndex
	written    *writes.Memory
	newest     writes.Objects[*svm]

	runner   *reconcile.Loop[schema.GroupResource]
	version  *reconcile.Loop[string]
	migrator *reconcile.Loop[string]
	// The queues are those of the loops, except in tests.
	runnerQueue   reconcile.Queue[schema.GroupResource]
	versionQueue  reconcile.Queue[string]
	migratorQueue reconcile.Queue[string]

	caches   *caches
	progress *progress
	absences *absences
	pace     *pace
	hints    *hints
	// stopped is closed when the controller is to stop.
	stopped chan struct{}
}

func newController(env controller.Env, cfg config) (*migrationController, error) {
	migrations := env.Informers.Storagemigration().V1beta1().StorageVersionMigrations()
	index.Ensure(migrations.Informer(), resourceIndex, resourceKeys)
	stopped := make(chan struct{})
	c := &migrationController{
		Env:        env,
		migrations: migrations.Lister(),
		byResource: migrations.Informer().GetIndexer(),
		written:    writes.New(env.Clock, writes.Stores{migrationResource.GroupResource(): migrations.Informer().GetStore()}),
		caches:     newCaches(env.Informers, env.Clock, stopped),
		progress:   newProgress(),
		absences:   newAbsences(),
		pace:       newPace(cfg.rate, env.Clock, stopped),
		hints:      newHints(),
		stopped:    stopped,
	}
	c.newest = writes.ObjectsOf[*svm](c.written, migrationResource.GroupResource())
	c.runner = reconcile.New(env, reconcile.Options[schema.GroupResource]{Queue: runnerName, Workers: 1}, c.runNext)
	c.version = reconcile.New(env, reconcile.Options[string]{Queue: versionName, Workers: 1}, c.determineVersion)
	c.migrator = reconcile.New(env, reconcile.Options[string]{
		Queue: controllerName, Workers: migrators, Backoff: c.hints,
	}, c.migrate)
	c.runnerQueue, c.versionQueue, c.migratorQueue = c.runner, c.version, c.migrator
	c.watch(migrations.Informer())
	return c, nil
}

// Run implements controller.Controller.
func (c *migrationController) Run(ctx context.Context) error {
	stop := func(ctx context.Context) error {
		<-ctx.Done()
		close(c.stopped)
		return nil
	}
	return reconcile.Run(ctx, c.Env, c.begin, c.runner.Run, c.version.Run, c.migrator.Run, stop)
}

// handover is what the cache does not show: how far migrations are, and what was written to them.
type handover struct {
	positions positions
	writes    writes.State
}

// begin takes over from an instance in the same process.
func (c *migrationController) begin(context.Context) error {
	if left, ok := controller.TakeOver(c.Env, c); ok {
		c.progress.takeOver(left.positions, c.migrations)
		c.written.TakeOver(left.writes)
	}
	return nil
}

// HandOver implements controller.HandsOver.
func (c *migrationController) HandOver() handover {
	return handover{positions: c.progress.handOver(), writes: c.written.HandOver()}
}
