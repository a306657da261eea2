package expectations

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// StaleError says that a cache is older than what was written.
type StaleError struct {
	Resource schema.GroupResource
	// Read is the version of the cache, Written the one it must reach.
	Read, Written string
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("read version: %s is not as new as written version: %s for group resource %s", e.Read, e.Written, e.Resource)
}

// Fresh returns nil if the caches show every create, patch and update recorded for the
// owner, and else a *StaleError that names a resource that does not. It does not look
// at deletions.
func (t *Tracker) Fresh(owner types.NamespacedName) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.owners[owner]
	if !ok {
		return nil
	}
	if stale := t.stale(r); stale != nil {
		return stale
	}
	t.prune(owner, r)
	return nil
}

// recheck is how often a store that lags behind is looked at. Usually an event of the
// written object comes first; there is none if the watch was interrupted and the object
// is gone.
const recheck = time.Second

// Settled reports whether the caches show everything recorded for the owner with the
// UID, so that it may be acted on. If not, retry is in how long to look again although
// nothing happened; 0 means that there is no point in looking.
func (t *Tracker) Settled(owner types.NamespacedName, uid types.UID) (settled bool, retry time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.owners[owner]
	if !ok {
		return true, 0
	}
	if r.uid != uid {
		delete(t.owners, owner)
		return true, 0
	}
	now := t.clock.Now()
	settled = true
	wait := func(until time.Time) {
		settled = false
		if left := until.Sub(now); retry == 0 || left < retry {
			retry = left
		}
	}
	if t.stale(r) != nil {
		if until := r.written.Add(Timeout); now.Before(until) {
			wait(minTime(until, now.Add(recheck)))
		} else {
			clear(r.versions)
		}
	}
	for object, until := range r.deletions {
		if !now.Before(until) || t.seenDeleted(object) {
			delete(r.deletions, object)
			continue
		}
		wait(until)
	}
	if now.Before(r.hold) {
		settled = false
	} else {
		r.hold = time.Time{}
	}
	t.prune(owner, r)
	return settled, retry
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// stale drops the versions that the stores have reached and returns one that they have not.
func (t *Tracker) stale(r *record) *StaleError {
	var stale *StaleError
	for resource, written := range r.versions {
		read := ""
		if store, ok := t.stores[resource]; ok {
			read = store.LastStoreSyncResourceVersion()
		}
		order, err := resourceversion.CompareResourceVersion(read, written)
		if err != nil || order >= 0 {
			delete(r.versions, resource)
			continue
		}
		stale = &StaleError{Resource: resource, Read: read, Written: written}
	}
	return stale
}

// seenDeleted reports that the store shows the object as gone or on its way.
func (t *Tracker) seenDeleted(o Object) bool {
	store, ok := t.stores[o.Resource]
	if !ok {
		return true
	}
	item, exists, err := store.GetByKey(cache.NamespacedNameAsObjectName(o.Name).String())
	if err != nil || !exists {
		return true
	}
	object, err := meta.Accessor(item)
	if err != nil {
		return true
	}
	return object.GetUID() != o.UID || object.GetDeletionTimestamp() != nil
}

// prune forgets an owner for which nothing is left to wait for.
func (t *Tracker) prune(owner types.NamespacedName, r *record) {
	if len(r.versions) == 0 && len(r.deletions) == 0 && r.hold.IsZero() {
		delete(t.owners, owner)
	}
}
