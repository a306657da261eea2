package expectations

import (
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// owner with the UID, or had five minutes for it, and else a *StaleError that names a
// resource that does not. It does not look at deletions.
func (t *Tracker) Fresh(owner types.NamespacedName, uid types.UID) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.known(owner, uid)
	if r == nil {
		return nil
	}
	if stale := t.stale(r); stale != nil {
		return stale
	}
	t.prune(owner, r)
	return nil
}

// Read returns an owner that get reads from a cache, once the caches are fresh for it. It
// is read again after that was found: what was written to it may have arrived in between.
func Read[T metav1.Object](t *Tracker, owner types.NamespacedName, get func() (T, error)) (T, error) {
	object, err := get()
	if err != nil {
		return object, err
	}
	if err := t.Fresh(owner, object.GetUID()); err != nil {
		return object, err
	}
	return get()
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
	r := t.known(owner, uid)
	if r == nil {
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
		wait(minTime(r.written.Add(Timeout), now.Add(recheck)))
	}
	for object, until := range r.deletions {
		t.read(object.Resource) // may drop it
		if _, ok := r.deletions[object]; !ok {
			continue
		}
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

// known returns the record of an owner, nil if there is none. That of an earlier owner of
// the name is dropped.
func (t *Tracker) known(owner types.NamespacedName, uid types.UID) *record {
	r, ok := t.owners[owner]
	if ok && r.uid != uid {
		delete(t.owners, owner)
		return nil
	}
	return r
}

// read returns how far the store of a resource is, empty if that is not known. If it was
// further once, the versions of the cluster have gone back, as they do when it is restored
// from a backup: then nothing is left of what was written until now.
func (t *Tracker) read(resource schema.GroupResource) string {
	store, ok := t.stores[resource]
	if !ok {
		return ""
	}
	version := store.LastStoreSyncResourceVersion()
	if order, err := resourceversion.CompareResourceVersion(version, t.reached[resource]); err == nil && order < 0 {
		t.forgetWrites(resource)
	}
	t.reached[resource] = version
	return version
}

// forgetWrites drops what was written of a resource, for all owners.
func (t *Tracker) forgetWrites(resource schema.GroupResource) {
	for _, r := range t.owners {
		delete(r.versions, resource)
		maps.DeleteFunc(r.deletions, func(o Object, _ time.Time) bool { return o.Resource == resource })
	}
}

// stale drops the versions that the stores have reached or had long enough for, and
// returns one that they have yet to reach.
func (t *Tracker) stale(r *record) *StaleError {
	if t.clock.Since(r.written) >= Timeout {
		clear(r.versions)
	}
	var stale *StaleError
	for resource, written := range r.versions {
		read := t.read(resource)
		if _, ok := r.versions[resource]; !ok {
			continue // it went back
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
