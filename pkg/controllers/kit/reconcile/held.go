package reconcile

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// heldKeys are the keys that wait for the end of a pause, by its namespace, or until objects of a
// kind may be deleted, by the kind.
type heldKeys[K comparable] struct {
	mu      sync.Mutex
	byCause map[string]map[K]bool
}

// count returns the number of keys, those that wait for several causes once for each.
func (h *heldKeys[K]) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, keys := range h.byCause {
		n += len(keys)
	}
	return n
}

// add is to be called under the lock.
func (h *heldKeys[K]) add(cause string, key K) {
	if h.byCause == nil {
		h.byCause = map[string]map[K]bool{}
	}
	if h.byCause[cause] == nil {
		h.byCause[cause] = map[K]bool{}
	}
	h.byCause[cause][key] = true
}

// released takes out the keys whose cause is over, and returns them.
func (h *heldKeys[K]) released(holds func(cause string) bool) []K {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []K
	for cause, keys := range h.byCause {
		if holds(cause) {
			continue
		}
		all = slices.AppendSeq(all, maps.Keys(keys))
		delete(h.byCause, cause)
	}
	return all
}

// causes returns the keys that are held back, each with what it waits for.
func (h *heldKeys[K]) causes() map[K][]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[K][]string{}
	for cause, keys := range h.byCause {
		for key := range keys {
			all[key] = append(all[key], cause)
		}
	}
	return all
}

// OfNamespace is Options.Namespace for keys that are the names of namespaces.
func OfNamespace(name string) string { return name }

// namespaceOf returns the namespace of keys that are names of objects, nil for other keys.
func namespaceOf[K comparable]() func(K) string {
	var of any
	switch any(*new(K)).(type) {
	case types.NamespacedName:
		of = func(key types.NamespacedName) string { return key.Namespace }
	case cache.ObjectName:
		of = func(key cache.ObjectName) string { return key.Namespace }
	}
	known, _ := of.(func(K) string)
	return known
}

// holdIfPaused holds a key back if the controller is paused in its namespace.
func (l *Loop[K]) holdIfPaused(key K) bool {
	if l.options.Namespace == nil || !l.pauses.Any() {
		return false
	}
	if !l.holdIfPausedIn(l.options.Namespace(key), key) {
		return false
	}
	l.lanes.takeTrigger(key) // no reconcile will ask why it was queued
	return true
}

// holdIfPausedIn holds a key back while a namespace is paused. It asks under the lock that resumePaused
// takes after a change, so that no key is held once its namespace is resumed.
func (l *Loop[K]) holdIfPausedIn(namespace string, key K) bool {
	l.paused.mu.Lock()
	defer l.paused.mu.Unlock()
	if !l.pauses.Hold(namespace) {
		return false
	}
	l.paused.add(namespace, key)
	return true
}

// holdUntilResumed has a key enqueued at the end of the pauses of namespaces.
func (l *Loop[K]) holdUntilResumed(namespaces []string, key K) {
	for _, namespace := range namespaces {
		l.holdIfPausedIn(namespace, key)
	}
}

// holdIfStopped holds a key back until objects of some kinds may be deleted. It reports false if they
// may be by now. Like holdIfPausedIn, it asks under the lock that resumeStopped takes after a change.
func (l *Loop[K]) holdIfStopped(kinds []schema.GroupResource, key K) bool {
	l.stopped.mu.Lock()
	defer l.stopped.mu.Unlock()
	held := false
	for _, kind := range kinds {
		if l.deletions.Stopped(kind) {
			l.stopped.add(kind.String(), key)
			held = true
		}
	}
	return held
}

// resumePaused enqueues the keys of the namespaces that are no longer paused.
func (l *Loop[K]) resumePaused() { l.enqueueAll(l.paused.released(l.pauses.Hold)) }

// resumeStopped enqueues the keys that waited for kinds whose objects may be deleted again.
func (l *Loop[K]) resumeStopped() {
	l.enqueueAll(l.stopped.released(func(kind string) bool {
		return l.deletions.Stopped(schema.ParseGroupResource(kind))
	}))
}

func (l *Loop[K]) enqueueAll(keys []K) {
	for _, key := range keys {
		l.forget(key)
		l.Enqueue(Backlog, key)
	}
}
