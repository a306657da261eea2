package writes

import (
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// StaleError reports that a cache is older than the controller's own writes.
type StaleError struct {
	Resource schema.GroupResource
	// Read is the version of the cache, Written the one it must reach.
	Read, Written string
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("read version: %s is not as new as written version: %s for group resource %s",
		e.Read, e.Written, e.Resource)
}

// Fresh returns a *StaleError for a resource whose cache does not show every create, patch and
// update recorded for the owner, however long ago, and nil if there is none. It ignores deletions.
func (m *Memory) Fresh(owner metav1.Object) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.known(owner)
	if r == nil {
		return nil
	}
	stale := m.stale(r)
	r.skipped = stale != nil
	if stale != nil {
		return stale
	}
	m.prune(reconcile.KeyOf(owner), r)
	return nil
}

// Read returns an owner that get reads from a cache, or a *StaleError. It reads again after the
// caches were found fresh, since a write may have arrived in between.
func Read[T metav1.Object](m *Memory, get func() (T, error)) (T, error) {
	owner, err := get()
	if err != nil {
		return owner, err
	}
	if err := m.Fresh(owner); err != nil {
		return owner, err
	}
	return get()
}

// recheck is the interval at which a stale store is checked. Usually an event of the written
// object arrives first; there is none if the watch was interrupted and the object is gone.
const recheck = time.Second

// Settled reports whether the caches show everything recorded for the owner, or Timeout has passed, so that it may be
// acted on. If not, retry is the delay after which to check again even without an event; 0
// means that no check is needed.
func (m *Memory) Settled(owner metav1.Object) (settled bool, retry time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.known(owner)
	if r == nil {
		return true, 0
	}
	now := m.clock.Now()
	settled = true
	wait := func(until time.Time) {
		settled = false
		if left := until.Sub(now); retry == 0 || left < retry {
			retry = left
		}
	}
	if givenUp := r.Written.Add(Timeout); m.stale(r) != nil && now.Before(givenUp) {
		wait(earlier(givenUp, now.Add(recheck)))
	}
	for object, until := range r.Deletions {
		m.noticeRestore(object.Resource) // may drop it
		if _, ok := r.Deletions[object]; !ok {
			continue
		}
		if !now.Before(until) || m.deletionIsVisible(object) {
			delete(r.Deletions, object)
			continue
		}
		wait(until)
	}
	if now.Before(r.Hold) {
		wait(r.Hold)
	} else {
		r.Hold = time.Time{}
	}
	if !now.Before(r.Uncertain) {
		r.Uncertain = time.Time{}
	}
	m.prune(reconcile.KeyOf(owner), r)
	return settled, retry
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// read returns the version of the store of a resource, empty if unknown, and notices a restore.
func (m *Memory) read(resource schema.GroupResource) string {
	m.noticeRestore(resource)
	return m.reached[resource]
}

// noticeRestore forgets the writes to a resource if the version of its store is lower than before: the cluster was
// restored from a backup, and all earlier writes are lost.
func (m *Memory) noticeRestore(resource schema.GroupResource) {
	store, ok := m.stores[resource]
	if !ok {
		return
	}
	version := store.LastStoreSyncResourceVersion()
	if controller.IsOlder(version, m.reached[resource]) {
		m.forgetWrites(resource)
	}
	m.reached[resource] = version
}

// forgetWrites drops the writes to a resource, for all owners.
func (m *Memory) forgetWrites(resource schema.GroupResource) {
	for _, r := range m.owners {
		delete(r.Versions, resource)
		delete(r.Objects, resource)
		maps.DeleteFunc(r.Deletions, func(o deletedObject, _ time.Time) bool { return o.Resource == resource })
	}
}

// stale drops the versions that the stores have reached, and returns one that remains.
func (m *Memory) stale(r *record) *StaleError {
	var stale *StaleError
	for resource, written := range r.Versions {
		read := m.read(resource)
		if _, ok := r.Versions[resource]; !ok {
			continue // read dropped it, because the version of the store went back
		}
		if !controller.IsOlder(read, written) {
			delete(r.Versions, resource)
			continue
		}
		stale = &StaleError{Resource: resource, Read: read, Written: written}
	}
	return stale
}

// deletionIsVisible reports whether the store shows that the object was deleted or is being deleted.
func (m *Memory) deletionIsVisible(o deletedObject) bool {
	store, ok := m.stores[o.Resource]
	if !ok {
		return true
	}
	item, exists, err := store.GetByKey(cache.ObjectName(o.Name).String())
	if err != nil || !exists {
		return true
	}
	object, err := meta.Accessor(item)
	if err != nil {
		return true
	}
	return object.GetUID() != o.UID || object.GetDeletionTimestamp() != nil
}
