package job

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// perJob holds a value per Job. A value belongs to the UID of a Job: a recreated Job starts
// without one, even if a reconcile of its predecessor was still in progress and set one.
type perJob[V any] struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]entry[V]
}

// entry is the value of one Job.
type entry[V any] struct {
	uid   types.UID
	value V
}

// get returns the value of the Job with the UID, and false if there is none.
func (p *perJob[V]) get(job types.NamespacedName, uid types.UID) (V, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.jobs[job]; ok && known.uid == uid {
		return known.value, true
	}
	var zero V
	return zero, false
}

func (p *perJob[V]) set(job types.NamespacedName, uid types.UID, value V) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(job, entry[V]{uid: uid, value: value})
}

func (p *perJob[V]) put(job types.NamespacedName, known entry[V]) {
	if p.jobs == nil {
		p.jobs = map[types.NamespacedName]entry[V]{}
	}
	p.jobs[job] = known
}

// drop removes the value of the Job with the UID.
func (p *perJob[V]) drop(job types.NamespacedName, uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jobs[job].uid == uid {
		delete(p.jobs, job)
	}
}

// forget removes the value of any Job of that name.
func (p *perJob[V]) forget(job types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.jobs, job)
}

// knows reports whether there is a value for a Job of that name.
func (p *perJob[V]) knows(job types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.jobs[job]
	return ok
}

func (p *perJob[V]) copy() map[types.NamespacedName]entry[V] {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.jobs)
}

// takeOver adds the values of the predecessor, except for Jobs that have one already.
func (p *perJob[V]) takeOver(jobs map[types.NamespacedName]entry[V]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for job, known := range jobs {
		if _, ok := p.jobs[job]; !ok {
			p.put(job, known)
		}
	}
}

// perPod holds values of pods, by their Job and UID.
type perPod[V any] struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]map[types.UID]V
}

func newPerPod[V any]() perPod[V] {
	return perPod[V]{jobs: map[types.NamespacedName]map[types.UID]V{}}
}

func (p *perPod[V]) knows(job types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.jobs[job]) > 0
}

func (p *perPod[V]) forget(job types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.jobs, job)
}

func (p *perPod[V]) copy() map[types.NamespacedName]map[types.UID]V {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[types.NamespacedName]map[types.UID]V, len(p.jobs))
	for job, pods := range p.jobs {
		all[job] = maps.Clone(pods)
	}
	return all
}
