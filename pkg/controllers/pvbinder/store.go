package pvbinder

import (
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// store holds the newest known state of each object of a kind: what the cache showed, or what a
// write of this instance returned, whichever is newer. The handlers of the informer fill it, so it
// shows an object before the key of the object is processed.
//
// An object that a write returned is kept for at most writes.Timeout, and not beyond a write that
// the API server rejects because the object is outdated. After that the cache counts again. So a
// cluster that was restored from a backup, in which versions go back, does not leave an object
// behind that never existed there.
//
// Objects in a store must not be modified.
type store[T object] struct {
	clock  clock.PassiveClock
	cached func(key string) (T, error)
	// changed is called, under the lock, for each object that replaces another. Either may be nil.
	changed func(old, current T)

	mu      sync.Mutex
	entries map[string]entry[T]
}

// object is a pointer to an API object.
type object interface {
	metav1.Object
	comparable
}

type entry[T object] struct {
	object T
	// written is when a write of this instance returned the object; zero if the cache showed it.
	written time.Time
}

func newStore[T object](c clock.PassiveClock, cached func(string) (T, error), changed func(old, current T)) *store[T] {
	return &store[T]{clock: c, cached: cached, changed: changed, entries: map[string]entry[T]{}}
}

// seen stores an object that the cache shows, unless a newer state of it was written.
func (s *store[T]) seen(key string, shown T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.entries[key]; ok && s.isAhead(e, shown) {
		return
	}
	s.set(key, entry[T]{object: shown})
}

// wrote stores the object that a write returned. It does not bring back an object that the cache
// has shown to be deleted or replaced meanwhile.
func (s *store[T]) wrote(key string, written T) {
	written.SetManagedFields(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[key]
	if !ok || e.object.GetUID() != written.GetUID() || !isOlder(e.object, written) {
		return
	}
	s.set(key, entry[T]{object: written, written: s.clock.Now()})
}

// gone removes an object that the cache does not show any more.
func (s *store[T]) gone(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(key)
}

// refused handles the error of a write. If the state that was sent is outdated, the cache counts again,
// unless another worker has written the object since: what that write returned is newer.
func (s *store[T]) refused(key string, sent T, err error) {
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[key]
	if ok && !e.written.IsZero() && e.object.GetResourceVersion() == sent.GetResourceVersion() {
		s.recover(key)
	}
}

// get returns the newest known state of an object, nil if there is none.
func (s *store[T]) get(key string) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.entries[key]; ok && !e.written.IsZero() && s.hasExpired(e) {
		s.recover(key)
	}
	return s.entries[key].object
}

// all returns the objects, in no particular order.
func (s *store[T]) all() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]T, 0, len(s.entries))
	for _, e := range s.entries {
		all = append(all, e.object)
	}
	return all
}

// uids returns the UIDs of the objects.
func (s *store[T]) uids() sets.Set[types.UID] {
	uids := sets.New[types.UID]()
	for _, object := range s.all() {
		uids.Insert(object.GetUID())
	}
	return uids
}

// recover replaces an object by what the cache shows. An error of the lister means that the cache
// does not show it: its deletion is about to be seen.
func (s *store[T]) recover(key string) {
	if shown, err := s.cached(key); err == nil {
		s.set(key, entry[T]{object: shown})
	} else if apierrors.IsNotFound(err) {
		s.remove(key)
	}
}

func (s *store[T]) set(key string, e entry[T]) {
	if old := s.entries[key].object; old != e.object { // a resync shows the same object
		s.changed(old, e.object)
	}
	s.entries[key] = e
}

func (s *store[T]) remove(key string) {
	if e, ok := s.entries[key]; ok {
		var none T
		s.changed(e.object, none)
		delete(s.entries, key)
	}
}

// isAhead reports whether an entry is a later state of an object than the cache shows.
func (s *store[T]) isAhead(e entry[T], shown T) bool {
	return !e.written.IsZero() && !s.hasExpired(e) && e.object.GetUID() == shown.GetUID() && isOlder(shown, e.object)
}

func (s *store[T]) hasExpired(e entry[T]) bool { return s.clock.Since(e.written) >= writes.Timeout }

// isOlder returns false if the versions cannot be compared: the cache then counts.
func isOlder(object, than metav1.Object) bool {
	return controller.IsOlder(object.GetResourceVersion(), than.GetResourceVersion())
}

// keyOf returns the key of an object in a store, as in listers.
func keyOf(object metav1.Object) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}.String()
}
