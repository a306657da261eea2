package selinuxwarning

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// uses is who uses which volumes. Each lookup costs as much as it finds.
type uses struct {
	mu      sync.Mutex
	pods    map[types.NamespacedName]*pod
	volumes map[string]*volume
	// ofDriver are the volumes of each CSI driver.
	ofDriver map[string]sets.Set[string]
	// inConflict are the volumes with conflicts.
	inConflict sets.Set[string]
}

// pod is what a pod asks for of each of its volumes.
type pod struct {
	uid      types.UID
	requests map[string]request
}

func newUses() *uses {
	return &uses{
		pods:       map[types.NamespacedName]*pod{},
		volumes:    map[string]*volume{},
		ofDriver:   map[string]sets.Set[string]{},
		inConflict: sets.New[string](),
	}
}

// set records how a pod uses a volume, and whether the volume can be mounted with a label. It returns
// the conflicts of all pods whose values changed because of that. It is asked whether the volume is
// mountable under the lock: who hears of a change of the driver later finds the pod among its users.
func (u *uses) set(
	key types.NamespacedName, uid types.UID, use use, isMountable func() (bool, error),
) ([]conflict, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	mountable, err := isMountable()
	if err != nil {
		return nil, err
	}
	p := u.pods[key]
	if p == nil {
		p = &pod{uid: uid, requests: map[string]request{}}
		u.pods[key] = p
	}
	v := u.volumes[use.volume]
	if v == nil {
		v = newVolume(use.driver, mountable)
		u.add(use.volume, v)
	}
	p.requests[use.volume] = use.request
	var changed []types.NamespacedName
	if v.mountable != mountable {
		v.mountable = mountable
		for other := range v.values {
			if other != key {
				changed = u.update(changed, other, use.volume)
			}
		}
	}
	changed = u.update(changed, key, use.volume)
	u.note(use.volume, v)
	return v.conflictsOf(sorted(changed)), nil
}

// update appends a pod if its value for a volume has changed.
func (u *uses) update(changed []types.NamespacedName, key types.NamespacedName, name string) []types.NamespacedName {
	v := u.volumes[name]
	is := u.pods[key].requests[name].on(v.mountable)
	if was, ok := v.values[key]; ok && was == is {
		return changed
	}
	v.put(key, is)
	return append(changed, key)
}

func (u *uses) add(name string, v *volume) {
	u.volumes[name] = v
	if v.driver == "" {
		return
	}
	if u.ofDriver[v.driver] == nil {
		u.ofDriver[v.driver] = sets.New[string]()
	}
	u.ofDriver[v.driver].Insert(name)
}

// note keeps inConflict.
func (u *uses) note(name string, v *volume) {
	if len(v.conflicts) > 0 {
		u.inConflict.Insert(name)
	} else {
		u.inConflict.Delete(name)
	}
}

// has reports whether the pod with the UID uses any volume.
func (u *uses) has(key types.NamespacedName, uid types.UID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.pods[key]
	return p != nil && p.uid == uid
}

// keepOnly forgets a pod unless it has the UID.
func (u *uses) keepOnly(key types.NamespacedName, uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if p := u.pods[key]; p != nil && p.uid != uid {
		u.forget(key)
	}
}

// remove forgets a pod.
func (u *uses) remove(key types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forget(key)
}

func (u *uses) forget(key types.NamespacedName) {
	p := u.pods[key]
	if p == nil {
		return
	}
	delete(u.pods, key)
	for name := range p.requests {
		v := u.volumes[name]
		v.remove(key)
		u.note(name, v)
		if len(v.values) == 0 {
			u.drop(name, v)
		}
	}
}

func (u *uses) drop(name string, v *volume) {
	delete(u.volumes, name)
	if of := u.ofDriver[v.driver]; of != nil {
		if of.Delete(name); of.Len() == 0 {
			delete(u.ofDriver, v.driver)
		}
	}
}

// of returns the pods that use volumes of a CSI driver.
func (u *uses) of(driver string) []types.NamespacedName {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := sets.New[types.NamespacedName]()
	for name := range u.ofDriver[driver] {
		for key := range u.volumes[name].values {
			all.Insert(key)
		}
	}
	return all.UnsortedList()
}

// conflicts returns all conflicts. Two pods that are in conflict over several volumes have those that
// are equal once.
func (u *uses) conflicts() sets.Set[conflict] {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := sets.New[conflict]()
	for name := range u.inConflict {
		u.volumes[name].addConflicts(all)
	}
	return all
}
