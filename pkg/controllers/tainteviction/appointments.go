package tainteviction

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// identity is one pod, and no other of its name.
type identity struct {
	types.NamespacedName
	uid types.UID
}

// appointment is a pending eviction.
type appointment struct {
	uid  types.UID
	node string
	// created is when the time began to be counted, due when the pod is evicted. They are equal if
	// it is evicted at once.
	created, due time.Time
	// begun says that the eviction was announced, and has been tried.
	begun bool
}

// isImmediate reports whether the pod did not tolerate the taints at all.
func (a appointment) isImmediate() bool { return !a.due.After(a.created) }

// appointments are the pending evictions, at most one for each name of a pod.
type appointments struct {
	mu     sync.Mutex
	all    map[types.NamespacedName]appointment
	onNode map[string]map[types.NamespacedName]bool
}

func newAppointments() *appointments {
	return &appointments{all: map[types.NamespacedName]appointment{}, onNode: map[string]map[types.NamespacedName]bool{}}
}

// has reports whether there is an appointment for a pod of that name.
func (a *appointments) has(key types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.all[key]
	return ok
}

// with returns the names of the pods on a node for which there are appointments.
func (a *appointments) with(node string) []types.NamespacedName {
	a.mu.Lock()
	defer a.mu.Unlock()
	keys := make([]types.NamespacedName, 0, len(a.onNode[node]))
	for key := range a.onNode[node] {
		keys = append(keys, key)
	}
	return keys
}

// set makes or replaces an appointment. The caller holds the lock.
func (a *appointments) set(key types.NamespacedName, made appointment) {
	a.drop(key)
	a.all[key] = made
	if a.onNode[made.node] == nil {
		a.onNode[made.node] = map[types.NamespacedName]bool{}
	}
	a.onNode[made.node][key] = true
}

// drop removes an appointment, if there is one. The caller holds the lock.
func (a *appointments) drop(key types.NamespacedName) {
	made, ok := a.all[key]
	if !ok {
		return
	}
	delete(a.all, key)
	delete(a.onNode[made.node], key)
	if len(a.onNode[made.node]) == 0 {
		delete(a.onNode, made.node)
	}
}

// of returns the appointment with a pod, false if there is none any more.
func (a *appointments) of(pod identity) (appointment, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	made, ok := a.all[pod.NamespacedName]
	return made, ok && made.uid == pod.uid
}

// begin returns the appointment with a pod, marked as begun, and whether it is the first time. ok is
// false if there is none any more, or none that is due.
func (a *appointments) begin(pod identity, now time.Time) (made appointment, first, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	made, ok = a.all[pod.NamespacedName]
	if !ok || made.uid != pod.uid || made.due.After(now) {
		return appointment{}, false, false
	}
	first = !made.begun
	made.begun = true
	a.all[pod.NamespacedName] = made
	return made, first, true
}

// end removes the appointment with a pod, but not that with another of its name.
func (a *appointments) end(pod identity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all[pod.NamespacedName].uid == pod.uid {
		a.drop(pod.NamespacedName)
	}
}

// state returns a copy of the appointments.
func (a *appointments) state() map[types.NamespacedName]appointment {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.all)
}
