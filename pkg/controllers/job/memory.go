package job

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// memories holds something for each of many Jobs. What is remembered belongs to the UID of
// a Job: one that is recreated starts clean, whatever a reconcile of its predecessor that
// was still under way has set.
type memories[V any] struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]memorized[V]
}

// memorized is what is remembered of one Job.
type memorized[V any] struct {
	uid  types.UID
	what V
}

func newMemories[V any]() *memories[V] {
	return &memories[V]{jobs: map[types.NamespacedName]memorized[V]{}}
}

// get returns what is remembered of the Job with the UID, false if that is nothing.
func (m *memories[V]) get(job types.NamespacedName, uid types.UID) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.jobs[job]; ok && known.uid == uid {
		return known.what, true
	}
	var nothing V
	return nothing, false
}

func (m *memories[V]) set(job types.NamespacedName, uid types.UID, what V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs[job] = memorized[V]{uid: uid, what: what}
}

// drop forgets a Job. An empty UID means whatever Job had the name.
func (m *memories[V]) drop(job types.NamespacedName, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if uid == "" || m.jobs[job].uid == uid {
		delete(m.jobs, job)
	}
}

// has reports that something is remembered of a Job with the name.
func (m *memories[V]) has(job types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.jobs[job]
	return ok
}

func (m *memories[V]) copy() map[types.NamespacedName]memorized[V] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.jobs)
}

// adopt takes over what a predecessor remembered, except of Jobs known already.
func (m *memories[V]) adopt(jobs map[types.NamespacedName]memorized[V]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for job, known := range jobs {
		if _, ok := m.jobs[job]; !ok {
			m.jobs[job] = known
		}
	}
}
