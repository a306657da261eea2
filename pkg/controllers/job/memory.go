package job

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// memories holds a value per Job. A value belongs to the UID of a Job: a recreated Job starts
// without one, even if a reconcile of its predecessor was still in progress and set one.
type memories[V any] struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]memorized[V]
}

// memorized is the value of one Job.
type memorized[V any] struct {
	uid  types.UID
	what V
}

// get returns the value of the Job with the UID, and false if there is none.
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
	m.put(job, memorized[V]{uid: uid, what: what})
}

func (m *memories[V]) put(job types.NamespacedName, known memorized[V]) {
	if m.jobs == nil {
		m.jobs = map[types.NamespacedName]memorized[V]{}
	}
	m.jobs[job] = known
}

// drop removes the value of a Job. An empty UID matches any Job of that name.
func (m *memories[V]) drop(job types.NamespacedName, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if uid == "" || m.jobs[job].uid == uid {
		delete(m.jobs, job)
	}
}

// has reports whether there is a value for a Job of that name.
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

// takeOver adds the values of the predecessor, except for Jobs that have one already.
func (m *memories[V]) takeOver(jobs map[types.NamespacedName]memorized[V]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for job, known := range jobs {
		if _, ok := m.jobs[job]; !ok {
			m.put(job, known)
		}
	}
}

// ofPods holds values of pods, by their Job and UID.
type ofPods[V any] struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]map[types.UID]V
}

func newOfPods[V any]() ofPods[V] {
	return ofPods[V]{jobs: map[types.NamespacedName]map[types.UID]V{}}
}

func (o *ofPods[V]) hasAny(job types.NamespacedName) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.jobs[job]) > 0
}

func (o *ofPods[V]) drop(job types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.jobs, job)
}

func (o *ofPods[V]) copy() map[types.NamespacedName]map[types.UID]V {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make(map[types.NamespacedName]map[types.UID]V, len(o.jobs))
	for job, pods := range o.jobs {
		all[job] = maps.Clone(pods)
	}
	return all
}
