package writes

import (
	"errors"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/requests"
)

// Timeout is how long Settled waits for a write that the cache never shows, and how long an owner is put on hold. It
// starts with the last write for the owner.
const Timeout = 5 * time.Minute

// Store is the part of an informer's store that the memory uses.
type Store interface {
	// GetByKey returns the object with the key namespace/name.
	GetByKey(key string) (item any, exists bool, err error)
	// LastStoreSyncResourceVersion returns the newest version in the store, empty if unknown.
	LastStoreSyncResourceVersion() string
}

// Stores are the informer stores in which writes become visible, by resource.
type Stores map[schema.GroupResource]Store

// Memory remembers writes. It is safe for concurrent use.
type Memory struct {
	// OnHold is called with each owner that is put on hold, and for how long, so that it is enqueued when the hold
	// ends: there may be no event then. Optional, and set before the memory is used.
	OnHold func(owner types.NamespacedName, d time.Duration)

	clock  clock.PassiveClock
	stores Stores

	mu     sync.Mutex
	owners map[types.NamespacedName]*record
	// added is the number of records added since the last sweep, and sweepAfter at how many the next
	// one is.
	added, sweepAfter int
	// reached is the version of each store when it was last read.
	reached map[schema.GroupResource]string
	// statuses are the recent status writes, oldest first.
	statuses []statusWrite
}

// record holds the writes for one owner.
type record struct {
	UID types.UID
	// Versions holds, per resource, the highest written version that is not visible yet.
	Versions map[schema.GroupResource]string
	// Written is when a version or an object was last recorded.
	Written time.Time
	// Deletions holds the deleted objects and when each is given up.
	Deletions map[deletedObject]time.Time
	// Hold is until when the owner is on hold.
	Hold time.Time
	// Uncertain is the time until which only the object that Attempted names may be created: a create without an answer
	// may have succeeded.
	Uncertain time.Time
	// Attempted is the name of the object that may have been created; empty if the name was to be generated.
	Attempted string
	// Objects holds the objects that writes returned and the caches do not show yet, by UID.
	// They are shared and never modified.
	Objects map[schema.GroupResource]map[types.UID]metav1.Object
	// Status is the last write of the status.
	Status lastStatus
	// skipped is set while the owner waits for a cache: its last reconcile was skipped because one was stale.
	skipped bool
}

// lastStatus is the last write of the status of an owner.
type lastStatus struct {
	At      time.Time
	Version string
	// Counts is when what it counts began to change by writes to dependents; zero once it was written.
	Counts time.Time
	// waiting are the counts that were put off last, and changed is since when. They are not handed over.
	waiting any
	changed time.Time
}

// latest returns the later of the times; zero if there is none.
func (s lastStatus) latest() time.Time {
	if s.Counts.After(s.At) {
		return s.Counts
	}
	return s.At
}

// deletedObject is an object that was deleted for an owner.
type deletedObject struct {
	Resource schema.GroupResource
	Name     types.NamespacedName
	UID      types.UID
}

// New returns an empty Memory.
func New(c clock.PassiveClock, stores Stores) *Memory {
	return &Memory{
		clock:   c,
		stores:  stores,
		owners:  map[types.NamespacedName]*record{},
		reached: map[schema.GroupResource]string{},

		sweepAfter: minSweep,
	}
}

// Wrote records that a create, patch or update for the owner returned an object of the resource
// with the version.
func (m *Memory) Wrote(owner metav1.Object, resource schema.GroupResource, version string) {
	if version == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noticeRestore(resource)
	r := m.of(owner)
	r.Written = m.clock.Now()
	if r.Versions == nil {
		r.Versions = map[schema.GroupResource]string{}
	}
	if controller.IsOlder(version, r.Versions[resource]) {
		return
	}
	r.Versions[resource] = version
}

// Deleting records that the object is about to be deleted for the owner. It must be called
// before the request, so that a deletion whose response is lost is remembered.
func (m *Memory) Deleting(owner metav1.Object, resource schema.GroupResource, object metav1.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noticeRestore(resource)
	r := m.of(owner)
	if r.Deletions == nil {
		r.Deletions = map[deletedObject]time.Time{}
	}
	r.Deletions[deletedObjectOf(resource, object)] = m.clock.Now().Add(Timeout)
}

// DeleteUnanswered shortens the wait for an object whose deletion had no answer: if the cache does
// not show the deletion within reconcile.RecheckAfter, the object was not deleted.
func (m *Memory) DeleteUnanswered(owner metav1.Object, resource schema.GroupResource, object metav1.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.owners[reconcile.KeyOf(owner)]; r != nil {
		if deleted := deletedObjectOf(resource, object); !r.Deletions[deleted].IsZero() {
			r.Deletions[deleted] = m.clock.Now().Add(reconcile.RecheckAfter)
		}
	}
}

// DeleteFailed undoes Deleting for an object that was not deleted.
func (m *Memory) DeleteFailed(owner metav1.Object, resource schema.GroupResource, object metav1.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.owners[reconcile.KeyOf(owner)]; r != nil {
		delete(r.Deletions, deletedObjectOf(resource, object))
	}
}

// Hold makes Settled return false for the owner until the duration has passed. It does not shorten an earlier hold.
func (m *Memory) Hold(owner metav1.Object, d time.Duration) {
	m.hold(owner, d)
	if m.OnHold != nil {
		m.OnHold(reconcile.KeyOf(owner), d)
	}
}

func (m *Memory) hold(owner metav1.Object, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of(owner)
	if until := m.clock.Now().Add(d); until.After(r.Hold) {
		r.Hold = until
	}
}

// ErrUncertain is why nothing is created for an owner.
var ErrUncertain = errors.New(
	"an object may have been created although the request failed, which the cache would show soon")

// CreateUncertain records that the owner may have one more object, since a create had no answer. name is empty if it
// was to be generated. An object with a name is uncertain for as long as the create, which was sent at a time, may be
// late; it may be repeated meanwhile. Others would wait for it, so that they do for no longer than a cache is usually
// behind.
func (m *Memory) CreateUncertain(owner metav1.Object, name string, sent time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	until := m.clock.Now().Add(reconcile.RecheckAfter)
	if late := sent.Add(requests.LateWithin); name != "" && late.After(until) {
		until = late
	}
	r := m.of(owner)
	r.Uncertain, r.Attempted = until, name
}

// Attempted returns the name of the object that may have been created, also after the wait that MayCreate reports;
// empty if there is none, or its name is not known.
func (m *Memory) Attempted(owner metav1.Object) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.known(owner); r != nil {
		return r.Attempted
	}
	return ""
}

// CreateCertain undoes CreateUncertain: a live answer has shown what became of the object.
func (m *Memory) CreateCertain(owner metav1.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.known(owner); r != nil {
		r.Uncertain, r.Attempted = time.Time{}, ""
	}
}

// MayCreate returns an error if the owner has to wait before an object of that name, empty for a generated one, is
// created for it: an earlier create may have succeeded, and this one would be one too many. A create of the same name
// may be repeated, since the API server refuses a second one. The error is a reconcile.AwaitCache of ErrUncertain.
func (m *Memory) MayCreate(owner metav1.Object, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.known(owner)
	if r == nil || !m.clock.Now().Before(r.Uncertain) || name != "" && name == r.Attempted {
		return nil
	}
	return reconcile.AwaitCache(ErrUncertain)
}

// Forget drops the record of a deleted owner, but not that of a namesake.
func (m *Memory) Forget(owner metav1.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := reconcile.KeyOf(owner)
	if r, ok := m.owners[key]; ok && r.UID == owner.GetUID() {
		delete(m.owners, key)
	}
}

// Knows reports whether there is a record of an owner of that name.
func (m *Memory) Knows(key types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owners[key] != nil
}

// ForgetAll drops the record of any owner of that name.
func (m *Memory) ForgetAll(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.owners, key)
}

// of returns the record of an owner; the record of an earlier owner of that name is replaced.
func (m *Memory) of(owner metav1.Object) *record {
	key := reconcile.KeyOf(owner)
	r, ok := m.owners[key]
	if !ok || r.UID != owner.GetUID() {
		m.sweep()
		r = &record{UID: owner.GetUID()}
		m.owners[key] = r
	}
	return r
}

// minSweep is the number of records that are added at least from one sweep to the next.
const minSweep = 100

// sweep is called for each record that is added. Once as many were added as the last sweep left, it drops
// those that have expired: they belong to owners that are gone and not looked up any more. An owner may
// have been deleted before the answer to a write for it came.
func (m *Memory) sweep() {
	if m.added++; m.added < m.sweepAfter {
		return
	}
	now := m.clock.Now()
	maps.DeleteFunc(m.owners, func(_ types.NamespacedName, r *record) bool { return m.hasExpired(r, now) })
	m.added, m.sweepAfter = 0, max(minSweep, len(m.owners))
}

// hasExpired reports whether nothing in a record is valid any more, whatever the stores show of what is not a version.
func (m *Memory) hasExpired(r *record, now time.Time) bool {
	for _, until := range r.Deletions {
		if now.Before(until) {
			return false
		}
	}
	uncertain := r.Uncertain
	if r.Attempted != "" {
		uncertain = uncertain.Add(Timeout)
	}
	return now.Sub(r.Written) >= Timeout && !now.Before(r.Hold) && !now.Before(uncertain) && r.Status.latest().IsZero() &&
		m.stale(r) == nil
}

// known returns the record of an owner, nil if there is none. That of an earlier owner of
// the name is dropped.
func (m *Memory) known(owner metav1.Object) *record {
	key := reconcile.KeyOf(owner)
	r, ok := m.owners[key]
	if ok && r.UID != owner.GetUID() {
		delete(m.owners, key)
		return nil
	}
	return r
}

// prune drops the record of an owner if it is empty.
func (m *Memory) prune(key types.NamespacedName, r *record) {
	if r.isEmpty() {
		delete(m.owners, key)
	}
}

func (r *record) isEmpty() bool {
	return len(r.Versions) == 0 && len(r.Deletions) == 0 && len(r.Objects) == 0 &&
		r.Hold.IsZero() && r.Uncertain.IsZero() && r.Status.latest().IsZero()
}

func deletedObjectOf(resource schema.GroupResource, o metav1.Object) deletedObject {
	return deletedObject{Resource: resource, Name: reconcile.KeyOf(o), UID: o.GetUID()}
}
