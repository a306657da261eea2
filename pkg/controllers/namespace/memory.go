package namespace

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// memory caches state of namespaces that are being deleted. It only makes sweeps cheaper:
// without it, everything is swept.
type memory struct {
	mu         sync.Mutex
	namespaces map[string]recollection
}

// recollection is the state of one incarnation of a namespace.
type recollection struct {
	uid types.UID
	// seen is when this process observed the deletion.
	seen time.Time
	// clean are the types that were clean when they were last swept.
	clean sets.Set[schema.GroupVersionResource]
	// pods is how many pods the cache shows at least whose end is waited for; zero if none is.
	pods int
}

func newMemory() *memory { return &memory{namespaces: map[string]recollection{}} }

// observe adds a namespace, unless it is known already.
func (m *memory) observe(ns *corev1.Namespace, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.namespaces[ns.Name]; ok && known.uid == ns.UID {
		return
	}
	m.namespaces[ns.Name] = recollection{uid: ns.UID, seen: now}
}

// recall returns the state of a namespace, and false if there is none.
func (m *memory) recall(ns *corev1.Namespace) (recollection, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.namespaces[ns.Name]
	return known, ok && known.uid == ns.UID
}

// note records which types a sweep found or left clean, if the namespace is still known. Types
// that were not swept are unaffected.
func (m *memory) note(ns *corev1.Namespace, swept sweep) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.namespaces[ns.Name]
	if !ok || known.uid != ns.UID {
		return
	}
	clean := known.clean.Clone() // a caller may be using the old one
	for _, o := range swept {
		if o.clean() {
			clean.Insert(o.resource)
		} else {
			clean.Delete(o.resource)
		}
	}
	known.clean = clean
	m.namespaces[ns.Name] = known
}

// awaitPods remembers and returns how many pods a namespace waits for. shown counts those that the cache shows. None
// of them can end unnoticed in between, since podGone waits for this.
func (m *memory) awaitPods(ns *corev1.Namespace, shown func() int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	count := shown()
	if known, ok := m.namespaces[ns.Name]; ok && known.uid == ns.UID {
		known.pods = count
		m.namespaces[ns.Name] = known
	}
	return count
}

// podGone counts the end of a pod, and reports whether it was the last one that a namespace waited for. shown counts
// the pods that the cache shows: it is asked only when none may be left.
func (m *memory) podGone(namespace string, shown func() int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.namespaces[namespace]
	if !ok || known.pods == 0 {
		return false
	}
	known.pods--
	if known.pods == 0 { // more than are gone may have been counted: the cache is ahead of its notifications
		known.pods = shown()
	}
	m.namespaces[namespace] = known
	return known.pods == 0
}

func (m *memory) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.namespaces, name)
}

const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = time.Minute
)

// backoff is the delay of failed namespaces: 5 ms doubling to one minute, and over all
// namespaces 10 per second with a burst of 100.
type backoff struct {
	workqueue.TypedRateLimiter[string]

	mu   sync.Mutex
	kept sets.Set[string]
}

func newBackoff() *backoff {
	return &backoff{
		TypedRateLimiter: reconcile.Backoff[string](firstRetry, lastRetry),
		kept:             sets.New[string](),
	}
}

// keep suppresses the next Forget of a namespace: its reconcile ended without an error, but has
// not succeeded yet.
func (b *backoff) keep(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept.Insert(name)
}

// Forget implements workqueue.TypedRateLimiter.
func (b *backoff) Forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept.Has(name) {
		b.kept.Delete(name)
		return
	}
	b.TypedRateLimiter.Forget(name)
}
