package expectations

import (
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
)

// Timeout is how long a write is waited for that the cache never shows, and how long an
// owner holds still that was told to. It counts from the last write for the owner.
const Timeout = 5 * time.Minute

// Store is what the tracker asks of the store of an informer.
type Store interface {
	// GetByKey returns the object of a namespace/name.
	GetByKey(key string) (item any, exists bool, err error)
	// LastStoreSyncResourceVersion is the newest version the store has seen, empty if
	// it does not know.
	LastStoreSyncResourceVersion() string
}

// Stores are the informer stores that show the writes, by resource.
type Stores map[schema.GroupResource]Store

// Tracker remembers writes until the caches show them. It is safe for concurrent use.
type Tracker struct {
	clock  clock.PassiveClock
	stores Stores

	mu     sync.Mutex
	owners map[types.NamespacedName]*record
	// reached is how far each store was when it was looked at last.
	reached map[schema.GroupResource]string
}

// record is what was written for one owner.
type record struct {
	uid       types.UID
	versions  map[schema.GroupResource]string
	written   time.Time // when a version was recorded last
	deletions map[Object]time.Time
	hold      time.Time
}

// Object is a deleted object.
type Object struct {
	Resource schema.GroupResource
	Name     types.NamespacedName
	UID      types.UID
}

// New makes an empty tracker.
func New(c clock.PassiveClock, stores Stores) *Tracker {
	return &Tracker{
		clock:   c,
		stores:  stores,
		owners:  map[types.NamespacedName]*record{},
		reached: map[schema.GroupResource]string{},
	}
}

// Wrote records that a create, patch or update for the owner returned an object of the
// resource with the version.
func (t *Tracker) Wrote(owner types.NamespacedName, uid types.UID, resource schema.GroupResource, version string) {
	if version == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read(resource)
	r := t.of(owner, uid)
	r.written = t.clock.Now()
	if r.versions == nil {
		r.versions = map[schema.GroupResource]string{}
	}
	if order, err := resourceversion.CompareResourceVersion(r.versions[resource], version); err == nil && order > 0 {
		return
	}
	r.versions[resource] = version
}

// Deleting records that the object is about to be deleted for the owner. It must come
// before the call, so that a deletion whose answer is lost is remembered.
func (t *Tracker) Deleting(owner types.NamespacedName, uid types.UID, resource schema.GroupResource, object metav1.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read(resource)
	r := t.of(owner, uid)
	if r.deletions == nil {
		r.deletions = map[Object]time.Time{}
	}
	r.deletions[objectOf(resource, object)] = t.clock.Now().Add(Timeout)
}

// DeleteFailed takes back Deleting for an object that the API server refused to delete.
func (t *Tracker) DeleteFailed(owner types.NamespacedName, resource schema.GroupResource, object metav1.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r, ok := t.owners[owner]; ok {
		delete(r.deletions, objectOf(resource, object))
	}
}

// Hold keeps the owner from being settled for the duration.
func (t *Tracker) Hold(owner types.NamespacedName, uid types.UID, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(owner, uid).hold = t.clock.Now().Add(d)
}

// Forget drops what is remembered for an owner that was deleted. An empty UID means
// whatever owner had the name.
func (t *Tracker) Forget(owner types.NamespacedName, uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r, ok := t.owners[owner]; ok && (uid == "" || r.uid == uid) {
		delete(t.owners, owner)
	}
}

// of returns the record of an owner; the record of an earlier owner of that name is replaced.
func (t *Tracker) of(owner types.NamespacedName, uid types.UID) *record {
	r, ok := t.owners[owner]
	if !ok || r.uid != uid {
		r = &record{uid: uid}
		t.owners[owner] = r
	}
	return r
}

func objectOf(resource schema.GroupResource, o metav1.Object) Object {
	return Object{
		Resource: resource,
		Name:     types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()},
		UID:      o.GetUID(),
	}
}

// State is what one tracker hands over to the next, by owner.
type State map[types.NamespacedName]OwnerState

// OwnerState is what was written for one owner and may not be visible in caches.
type OwnerState struct {
	UID types.UID
	// Versions holds the highest version written per resource, Written when that was.
	Versions map[schema.GroupResource]string
	Written  time.Time
	// Deletions holds the deleted objects and when each is given up.
	Deletions map[Object]time.Time
	// Hold is until when the owner holds still.
	Hold time.Time
}

// HandOver returns what the tracker remembers, as a copy.
func (t *Tracker) HandOver() State {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := make(State, len(t.owners))
	for owner, r := range t.owners {
		state[owner] = OwnerState{
			UID:       r.uid,
			Versions:  maps.Clone(r.versions),
			Written:   r.written,
			Deletions: maps.Clone(r.deletions),
			Hold:      r.hold,
		}
	}
	return state
}

// Adopt takes over what HandOver of an earlier tracker of the same controller returned;
// anything else is ignored. What the tracker remembers itself is newer and stays.
func (t *Tracker) Adopt(predecessor any) {
	state, ok := predecessor.(State)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for owner, s := range state {
		if _, known := t.owners[owner]; known {
			continue
		}
		t.owners[owner] = &record{
			uid:       s.UID,
			versions:  maps.Clone(s.Versions),
			written:   s.Written,
			deletions: maps.Clone(s.Deletions),
			hold:      s.Hold,
		}
	}
}
