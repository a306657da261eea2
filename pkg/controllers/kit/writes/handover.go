package writes

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// State is the content of a Memory that is handed over, by owner.
type State map[types.NamespacedName]record

// HandOver returns a copy of the records.
func (m *Memory) HandOver() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := make(State, len(m.owners))
	for owner, r := range m.owners {
		state[owner] = r.clone()
	}
	return state
}

// TakeOver adds the State that an earlier Memory of the same controller handed over; existing
// records are newer and are kept. Objects that the stores show are left out: their owners may be
// gone since.
func (m *Memory) TakeOver(state State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for owner, inherited := range state {
		if _, known := m.owners[owner]; known {
			continue
		}
		r := inherited.clone()
		m.dropVisible(&r)
		if r.isEmpty() {
			continue
		}
		m.owners[owner] = &r
		if at := r.Status.latest(); !at.IsZero() {
			m.statuses = append(m.statuses, statusWrite{owner: owner, at: at})
		}
	}
	slices.SortFunc(m.statuses, func(a, b statusWrite) int { return a.at.Compare(b.at) })
}

func (r *record) clone() record {
	copied := *r
	copied.Status.waiting = nil
	copied.Versions = maps.Clone(r.Versions)
	copied.Deletions = maps.Clone(r.Deletions)
	copied.Objects = make(map[schema.GroupResource]map[types.UID]metav1.Object, len(r.Objects))
	for resource, objects := range r.Objects {
		copied.Objects[resource] = maps.Clone(objects)
	}
	return copied
}
