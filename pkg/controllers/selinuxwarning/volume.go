package selinuxwarning

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// volume is who uses a volume with which value.
type volume struct {
	driver    string
	mountable bool
	values    map[types.NamespacedName]value
	// groups are the pods of each value.
	groups map[value]sets.Set[types.NamespacedName]
	// conflicts has the values that are in conflict, both ways.
	conflicts map[value]map[value]differences
}

func newVolume(driver string, mountable bool) *volume {
	return &volume{
		driver:    driver,
		mountable: mountable,
		values:    map[types.NamespacedName]value{},
		groups:    map[value]sets.Set[types.NamespacedName]{},
		conflicts: map[value]map[value]differences{},
	}
}

// put sets the value of a pod.
func (v *volume) put(pod types.NamespacedName, is value) {
	v.remove(pod)
	if v.groups[is] == nil {
		v.compareWithOthers(is)
		v.groups[is] = sets.New[types.NamespacedName]()
	}
	v.groups[is].Insert(pod)
	v.values[pod] = is
}

func (v *volume) compareWithOthers(is value) {
	for other := range v.groups {
		found := compare(is, other)
		if !found.any() {
			continue
		}
		for a, b := range map[value]value{is: other, other: is} {
			if v.conflicts[a] == nil {
				v.conflicts[a] = map[value]differences{}
			}
			v.conflicts[a][b] = found
		}
	}
}

func (v *volume) remove(pod types.NamespacedName) {
	was, ok := v.values[pod]
	if !ok {
		return
	}
	delete(v.values, pod)
	if v.groups[was].Delete(pod); v.groups[was].Len() > 0 {
		return
	}
	delete(v.groups, was)
	for other := range v.conflicts[was] {
		if delete(v.conflicts[other], was); len(v.conflicts[other]) == 0 {
			delete(v.conflicts, other)
		}
	}
	delete(v.conflicts, was)
}

// conflictsOf returns the conflicts of pods: of each pair once, as between does.
func (v *volume) conflictsOf(pods []types.NamespacedName) []conflict {
	var all []conflict
	done := sets.New[types.NamespacedName]()
	for _, pod := range pods {
		is := v.values[pod]
		for _, with := range v.inConflictWith(is) {
			if !done.Has(with) {
				other := v.values[with]
				all = append(all, between(pod, with, is, other, v.conflicts[is][other])...)
			}
		}
		done.Insert(pod)
	}
	return all
}

// inConflictWith returns the pods whose values are in conflict with a value, in order.
func (v *volume) inConflictWith(is value) []types.NamespacedName {
	var pods []types.NamespacedName
	for other := range v.conflicts[is] {
		pods = append(pods, v.groups[other].UnsortedList()...)
	}
	return sorted(pods)
}

// addConflicts adds all conflicts of the volume to others.
func (v *volume) addConflicts(to sets.Set[conflict]) {
	for is, others := range v.conflicts {
		for other, found := range others {
			v.addBetween(to, is, other, found)
		}
	}
}

// addBetween adds the conflicts between the pods of two values.
func (v *volume) addBetween(to sets.Set[conflict], is, other value, found differences) {
	for pod := range v.groups[is] {
		for with := range v.groups[other] {
			to.Insert(between(pod, with, is, other, found)...)
		}
	}
}

// byName orders pods.
func byName(a, b types.NamespacedName) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

func sorted(pods []types.NamespacedName) []types.NamespacedName {
	slices.SortFunc(pods, byName)
	return pods
}
