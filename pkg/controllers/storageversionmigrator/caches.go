package storageversionmigrator

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
)

// caches holds the informer of each resource that is being migrated, from the first attempt to
// migrate it until the migration is over.
type caches struct {
	scope   controller.Scope
	clock   clock.WithTicker
	stopped <-chan struct{}

	mu         sync.Mutex
	byResource map[schema.GroupVersionResource]*shared
}

// shared is an informer and the migrations that use it.
type shared struct {
	informer cache.SharedIndexInformer
	since    time.Time
	users    map[string]bool
}

func newCaches(scope controller.Scope, c clock.WithTicker, stopped <-chan struct{}) *caches {
	return &caches{scope: scope, clock: c, stopped: stopped, byResource: map[schema.GroupVersionResource]*shared{}}
}

// acquire returns the informer of a resource for a migration, which releases that of any other, and
// since when it is held.
func (c *caches) acquire(
	ctx context.Context, migration string, of schema.GroupVersionResource,
) (cache.SharedIndexInformer, time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseLocked(migration, of)
	held := c.byResource[of]
	if held == nil {
		generic, err := c.scope.AnyFor(of)
		if err != nil {
			return nil, time.Time{}, err
		}
		held = &shared{informer: generic.Informer(), since: c.clock.Now(), users: map[string]bool{}}
		c.byResource[of] = held
		c.scope.StartWithContext(ctx)
	}
	held.users[migration] = true
	return held.informer, held.since, nil
}

// release gives back what a migration holds.
func (c *caches) release(migration string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseLocked(migration, schema.GroupVersionResource{})
}

func (c *caches) releaseLocked(migration string, except schema.GroupVersionResource) {
	for of, held := range c.byResource {
		if of == except || !held.users[migration] {
			continue
		}
		delete(held.users, migration)
		if len(held.users) > 0 {
			continue
		}
		delete(c.byResource, of)
		if of != migrationResource { // the informer of migrations is always held
			c.scope.Release(held.informer)
		}
	}
}

// awaitSync waits until an informer has synced, up to a time limit or the end of the controller.
func (c *caches) awaitSync(ctx context.Context, informer cache.SharedIndexInformer, limit time.Duration) bool {
	if informer.HasSynced() {
		return true
	}
	timer := c.clock.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-informer.HasSyncedChecker().Done():
		return true
	case <-timer.C():
	case <-c.stopped:
	case <-ctx.Done():
	}
	return informer.HasSynced()
}
