package job

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// memory is the state of Jobs that is only in memory. A further part has to be listed in all, handed over (see
// memoryState), and dropped by drop if it is kept by the UID of a Job.
type memory struct {
	backoffs  perJob[backoffRecord]
	sightings perJob[sightings]
	removals  *removals
	missed    *missedPods
	finished  perJob[time.Time] // when this process finished Jobs
}

// memoryPart is one part of a memory.
type memoryPart interface {
	// forget drops the state of any Job of that name.
	forget(job types.NamespacedName)
	// knows reports whether there is anything to forget.
	knows(job types.NamespacedName) bool
}

func (m *memory) all() []memoryPart {
	return []memoryPart{&m.backoffs, &m.sightings, m.removals, m.missed, &m.finished}
}

// forget drops the state of a Job that has finished or no longer exists.
func (m *memory) forget(job types.NamespacedName) {
	for _, part := range m.all() {
		part.forget(job)
	}
}

// knows reports whether there is state of a Job that forget would drop.
func (m *memory) knows(job types.NamespacedName) bool {
	for _, part := range m.all() {
		if part.knows(job) {
			return true
		}
	}
	return false
}

// memoryState is a copy of a memory, to be handed over.
type memoryState struct {
	backoffs  map[types.NamespacedName]entry[backoffRecord]
	sightings map[types.NamespacedName]entry[sightings]
	removals  map[types.NamespacedName]map[types.UID]removal
	missed    map[types.NamespacedName]map[types.UID]time.Time
	finished  map[types.NamespacedName]entry[time.Time]
}

func (m *memory) handOver() memoryState {
	return memoryState{
		backoffs:  m.backoffs.copy(),
		sightings: m.sightings.copy(),
		removals:  m.removals.copy(),
		missed:    m.missed.copy(),
		finished:  m.finished.copy(),
	}
}

// drop drops what is kept of the Job with the UID, which was deleted. What is kept of pods is not bound to the UID of
// the Job, and stays until forget.
func (m *memory) drop(job types.NamespacedName, uid types.UID) {
	m.finished.drop(job, uid)
	m.backoffs.drop(job, uid)
	m.sightings.drop(job, uid)
}

// takeOver adds the state that the predecessor handed over.
func (m *memory) takeOver(left memoryState) {
	m.backoffs.takeOver(left.backoffs)
	m.sightings.takeOver(left.sightings)
	m.removals.takeOver(left.removals)
	m.missed.takeOver(left.missed)
	m.finished.takeOver(left.finished)
}

// jobs returns the Jobs of which there is state.
func (s memoryState) jobs() sets.Set[types.NamespacedName] {
	return sets.KeySet(s.backoffs).Union(sets.KeySet(s.sightings)).Union(sets.KeySet(s.removals)).
		Union(sets.KeySet(s.missed)).Union(sets.KeySet(s.finished))
}
