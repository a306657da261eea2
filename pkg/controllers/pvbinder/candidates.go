package pvbinder

import (
	"cmp"
	"math/bits"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// candidates indexes volumes by what a claim requests, so that looking for a volume does not visit
// all of them. It decides nothing: what fits is decided by volume.FindMatchingVolume, which the
// scheduler uses as well. The index only leaves out volumes that the function would skip.
type candidates struct {
	// reserved has the volumes whose claimRef names a claim, by the key of the claim.
	reserved map[string][]*corev1.PersistentVolume
	// free has the volumes that are Available and without a claimRef, each list by capacity.
	free map[shelf][]*corev1.PersistentVolume
}

// shelf is what volumes have in common that can be bound to the same claims, apart from their
// capacity, their labels and their VolumeAttributesClass.
type shelf struct {
	modes accessModes
	class string
	mode  corev1.PersistentVolumeMode
}

// accessModes is a set of access modes, one bit for each.
type accessModes uint8

const allAccessModes = 1<<5 - 1

// accessModesOf returns a set. An unknown mode has a bit of its own.
func accessModesOf(modes []corev1.PersistentVolumeAccessMode) accessModes {
	var set accessModes
	for _, mode := range modes {
		switch mode {
		case corev1.ReadWriteOnce:
			set |= 1
		case corev1.ReadOnlyMany:
			set |= 1 << 1
		case corev1.ReadWriteMany:
			set |= 1 << 2
		case corev1.ReadWriteOncePod:
			set |= 1 << 3
		default:
			set |= 1 << 4
		}
	}
	return set
}

// supersets returns the sets that contain a set, those with the fewest modes first.
func (a accessModes) supersets() []accessModes {
	var all []accessModes
	for set := range accessModes(allAccessModes + 1) {
		if set&a == a {
			all = append(all, set)
		}
	}
	slices.SortStableFunc(all, func(x, y accessModes) int {
		return cmp.Compare(bits.OnesCount8(uint8(x)), bits.OnesCount8(uint8(y)))
	})
	return all
}

func newCandidates() candidates {
	return candidates{reserved: map[string][]*corev1.PersistentVolume{}, free: map[shelf][]*corev1.PersistentVolume{}}
}

// changed keeps the index up to date. Either volume may be nil.
func (c candidates) changed(old, current *corev1.PersistentVolume) {
	if old != nil {
		c.remove(old)
	}
	if current != nil {
		c.add(current)
	}
}

func (c candidates) add(v *corev1.PersistentVolume) {
	if v.Spec.ClaimRef != nil {
		key := claimKeyOf(v)
		c.reserved[key] = append(c.reserved[key], v)
	} else if v.Status.Phase == corev1.VolumeAvailable {
		at := shelfOf(v)
		i, _ := slices.BinarySearchFunc(c.free[at], v, byCapacity)
		c.free[at] = slices.Insert(c.free[at], i, v)
	}
}

func (c candidates) remove(v *corev1.PersistentVolume) {
	if v.Spec.ClaimRef != nil {
		key := claimKeyOf(v)
		if i := slices.Index(c.reserved[key], v); i >= 0 {
			c.reserved[key] = slices.Delete(c.reserved[key], i, i+1)
		}
		if len(c.reserved[key]) == 0 {
			delete(c.reserved, key)
		}
		return
	}
	at := shelfOf(v)
	if i, found := slices.BinarySearchFunc(c.free[at], v, byCapacity); found {
		c.free[at] = slices.Delete(c.free[at], i, i+1)
	}
	if len(c.free[at]) == 0 {
		delete(c.free, at)
	}
}

// find returns the volume to bind to a claim, nil if there is none. It prefers volumes with few
// access modes, among these one that is reserved for the claim, and then the smallest. A claim that is delayed
// waits for its first consumer, and gets no other than a reserved one. vac is set if
// VolumeAttributesClasses are supported.
func (c candidates) find(claim *corev1.PersistentVolumeClaim, delayed, vac bool) (*corev1.PersistentVolume, error) {
	match := func(of []*corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
		return volume.FindMatchingVolume(claim, of, nil, nil, delayed, vac)
	}
	if _, err := match(nil); err != nil { // what is wrong with the claim does not depend on volumes
		return nil, err
	}
	reserved := c.reserved[keyOf(claim)]
	at := shelf{class: volume.GetPersistentVolumeClaimClass(claim), mode: volumeModeOf(claim.Spec.VolumeMode)}
	for _, modes := range accessModesOf(claim.Spec.AccessModes).supersets() {
		found, err := match(having(reserved, modes))
		if found != nil || err != nil {
			return found, err
		}
		if delayed {
			continue
		}
		at.modes = modes
		if found, err = inSteps(c.from(at, claim), match); found != nil || err != nil {
			return found, err
		}
	}
	return nil, nil
}

// from returns the free volumes of a shelf that are large enough for a claim, the smallest first.
func (c candidates) from(at shelf, claim *corev1.PersistentVolumeClaim) []*corev1.PersistentVolume {
	requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	i, _ := slices.BinarySearchFunc(c.free[at], requested, func(v *corev1.PersistentVolume, _ quantity) int {
		capacity := v.Spec.Capacity[corev1.ResourceStorage]
		return capacity.Cmp(requested)
	})
	return c.free[at][i:]
}

// inSteps looks for a match among volumes that are sorted by capacity. Usually the first fits. The
// steps grow, so that the selector of a claim is parsed rarely.
func inSteps(
	sorted []*corev1.PersistentVolume, match func([]*corev1.PersistentVolume) (*corev1.PersistentVolume, error),
) (*corev1.PersistentVolume, error) {
	for step := 1; len(sorted) > 0; step *= 2 {
		step = min(step, len(sorted))
		if found, err := match(sorted[:step]); found != nil || err != nil {
			return found, err
		}
		sorted = sorted[step:]
	}
	return nil, nil
}

// having returns the volumes that have just these access modes.
func having(volumes []*corev1.PersistentVolume, modes accessModes) []*corev1.PersistentVolume {
	var all []*corev1.PersistentVolume
	for _, v := range volumes {
		if accessModesOf(v.Spec.AccessModes) == modes {
			all = append(all, v)
		}
	}
	return all
}

func shelfOf(v *corev1.PersistentVolume) shelf {
	return shelf{accessModesOf(v.Spec.AccessModes), volume.GetPersistentVolumeClass(v), volumeModeOf(v.Spec.VolumeMode)}
}

// byCapacity sorts volumes by capacity, and those of the same capacity by name.
func byCapacity(a, b *corev1.PersistentVolume) int {
	x, y := a.Spec.Capacity[corev1.ResourceStorage], b.Spec.Capacity[corev1.ResourceStorage]
	if order := x.Cmp(y); order != 0 {
		return order
	}
	return cmp.Compare(a.Name, b.Name)
}

// volumeModeOf returns a volume mode. Old API servers leave it out.
func volumeModeOf(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	return ptr.Deref(mode, corev1.PersistentVolumeFilesystem)
}

// claimKeyOf returns the key of the claim that the claimRef of a volume names.
func claimKeyOf(v *corev1.PersistentVolume) string {
	return v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
}
