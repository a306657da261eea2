package devicetainteviction

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// appointment is a pending eviction of one pod.
type appointment struct {
	uid types.UID
	verdict
}

// appointments holds the pending evictions, at most one for each pod name. The lock of the controller
// protects it.
type appointments struct {
	all    map[types.NamespacedName]appointment
	byRule map[types.UID]map[types.NamespacedName]bool
}

func newAppointments() appointments {
	return appointments{
		all:    map[types.NamespacedName]appointment{},
		byRule: map[types.UID]map[types.NamespacedName]bool{},
	}
}

// set makes or replaces an appointment.
func (a appointments) set(key types.NamespacedName, made appointment) {
	a.drop(key)
	a.all[key] = made
	for _, why := range made.reasons {
		if !why.isRule() {
			continue
		}
		if a.byRule[why.uid] == nil {
			a.byRule[why.uid] = map[types.NamespacedName]bool{}
		}
		a.byRule[why.uid][key] = true
	}
}

// drop removes an appointment, if there is one.
func (a appointments) drop(key types.NamespacedName) {
	for _, why := range a.all[key].reasons {
		delete(a.byRule[why.uid], key)
		if len(a.byRule[why.uid]) == 0 {
			delete(a.byRule, why.uid)
		}
	}
	delete(a.all, key)
}

// with returns the appointment for a pod. It returns false if there is none for a pod with this UID.
func (a appointments) with(pod item) (appointment, bool) {
	made, ok := a.all[pod.NamespacedName]
	return made, ok && made.uid == pod.uid
}

// because returns the pods with an appointment that has a rule as a reason.
func (a appointments) because(rule types.UID) []item {
	pods := make([]item, 0, len(a.byRule[rule]))
	for key := range a.byRule[rule] {
		pods = append(pods, item{NamespacedName: key, uid: a.all[key].uid})
	}
	return pods
}

// copied returns a copy of the current appointments.
func (a appointments) copied() map[types.NamespacedName]appointment { return maps.Clone(a.all) }
