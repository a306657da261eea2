package storageversionmigrator

import (
	"context"
	"errors"
	"fmt"
	"time"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	// syncTimeout bounds the wait for a cache, so that it does not keep a worker.
	syncTimeout = 10 * time.Second
	// catchUpPeriod is the time between two looks at a cache that is behind. In a resource that
	// nobody writes, a cache moves on about once a minute, with a bookmark.
	catchUpPeriod = time.Second
)

// permanentError ends a migration.
type permanentError struct {
	error
	object string // that the API server refuses to store again; empty if the error is about none
}

func (e permanentError) Unwrap() error { return e.error }

// errStopped tells that the controller is to stop. Its successor goes on.
var errStopped = errors.New("the controller stops")

// errBehind tells that a cache does not have every object yet.
var errBehind = errors.New("GC cache is not up to date")

// errOver tells that a migration is over or gone, so that no further object is to be rewritten.
var errOver = errors.New("the migration is over")

// migrate rewrites the objects of a migration, in as many attempts as it takes.
func (c *migrationController) migrate(ctx context.Context, name string) error {
	migration, found, err := c.get(name)
	if err != nil {
		return err
	}
	if !found || isOver(migration) {
		c.release(name)
		return nil
	}
	if migration.Status.ResourceVersion == "" {
		c.caches.release(name) // what a namesake has left
		return nil             // the update is an event
	}
	err = c.attempt(ctx, migration)
	var permanent permanentError
	switch {
	case err == nil:
		err = c.setOnce(ctx, migration, migrationv1beta1.MigrationSucceeded, "StorageVersionMigrationSucceeded", "")
	case errors.Is(err, errOver):
		err = nil
	case errors.Is(err, errStopped):
		return nil
	case errors.Is(err, errBehind):
		klog.FromContext(ctx).V(4).Info("The cache is behind", "migration", name, "err", err)
		c.migratorQueue.AddAfter(name, catchUpPeriod)
		return nil
	case errors.As(err, &permanent):
		klog.FromContext(ctx).Error(err, "A migration has failed", "migration", name, "object", permanent.object)
		err = c.fail(ctx, migration, fmt.Sprintf("migration encountered unhandled error: %v", err))
	}
	if err == nil {
		c.release(name)
		return nil
	}
	if delay, ok := apierrors.SuggestsClientDelay(err); ok {
		c.hints.expect(name, time.Duration(delay)*time.Second)
	}
	return err
}

// release gives back what is held for a migration that is over or gone.
func (c *migrationController) release(name string) {
	c.caches.release(name)
	c.progress.forget(name)
	c.absences.forget(name)
	c.hints.forget(name)
}

// attempt rewrites what is left of a migration. A permanentError ends it.
func (c *migrationController) attempt(ctx context.Context, migration *svm) error {
	err := c.tolerate(migration, c.rewriteLeft(ctx, migration))
	if errors.Is(err, errAbsent) {
		return permanentError{error: errors.New("unable to obtain GVR from discovery")}
	}
	return err
}

// rewriteLeft rewrites what is left of a migration, once.
func (c *migrationController) rewriteLeft(ctx context.Context, migration *svm) error {
	to, err := c.find(resourceOf(migration))
	if err != nil {
		return err
	}
	objects, err := c.objectsOf(ctx, migration, to.resource)
	if err != nil {
		return err
	}
	if err := c.rewriteAll(ctx, migration, to, objects); err != nil {
		return err
	}
	return c.rewriteMissed(ctx, migration, to)
}

// objectsOf returns all objects that the cache shows. If it has missed nothing, there are no others that may have to be
// rewritten.
func (c *migrationController) objectsOf(
	ctx context.Context, migration *svm, resource schema.GroupVersionResource,
) ([]any, error) {
	informer, since, err := c.caches.acquire(ctx, migration.Name, resource)
	if err != nil {
		return nil, fmt.Errorf("no monitor found for resource %s: %w", resource, err)
	}
	if !c.caches.awaitSync(ctx, informer, syncTimeout) {
		if c.isStopping(ctx) {
			return nil, errStopped
		}
		if c.isYoung(migration) || c.Clock.Since(since) < discoveryGrace {
			return nil, reconcile.Requeue(fmt.Errorf("the cache of %s is not complete", resource))
		}
		return nil, permanentError{error: errors.New("resource does not exist in GC: its cache cannot be completed")}
	}
	shown := informer.GetStore().LastStoreSyncResourceVersion()
	if err := reached(shown, migration.Status.ResourceVersion); err != nil {
		return nil, err
	}
	return informer.GetStore().List(), nil
}

// isStopping reports whether the controller is to stop.
func (c *migrationController) isStopping(ctx context.Context) bool {
	select {
	case <-c.stopped:
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// reached is nil if what a cache or a list shows is at least as new as a resource version, errBehind if it is not.
func reached(shown, version string) error {
	order, err := resourceversion.CompareResourceVersion(shown, version)
	if err != nil {
		return permanentError{error: fmt.Errorf("error comparing resource versions between GC and SVM resource: %w", err)}
	}
	if order < 0 {
		return fmt.Errorf("%w: it shows %s, the migration needs %s", errBehind, shown, version)
	}
	return nil
}
