package resourcepoolstatusrequest

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	"k8s.io/utils/ptr"
)

// pool is what the slices of a pool say about it.
type pool struct {
	name       string
	generation int64
	// slices are those of the generation, in order of names.
	slices []*resourcev1.ResourceSlice
}

// poolsOf returns the pools of which there are slices, in order of names. The slices are those of one driver, and
// all that its pools have; only those of the highest generation of a pool count.
func poolsOf(all []*resourcev1.ResourceSlice) []pool {
	byName := map[string]*pool{}
	for _, slice := range all {
		is := &slice.Spec.Pool
		p := byName[is.Name]
		if p == nil {
			p = &pool{name: is.Name, generation: is.Generation}
			byName[is.Name] = p
		}
		if is.Generation > p.generation {
			p.generation, p.slices = is.Generation, nil
		}
		if is.Generation == p.generation {
			p.slices = append(p.slices, slice)
		}
	}
	pools := make([]pool, 0, len(byName))
	for _, p := range byName {
		slices.SortFunc(p.slices, func(a, b *resourcev1.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
		pools = append(pools, *p)
	}
	slices.SortFunc(pools, func(a, b pool) int { return cmp.Compare(a.name, b.name) })
	return pools
}

// expected is the number of slices that the pool has when it is complete. If slices disagree, the
// first one counts.
func (p pool) expected() int64 { return p.slices[0].Spec.Pool.ResourceSliceCount }

func (p pool) isComplete() bool { return int64(len(p.slices)) >= p.expected() }

// devices is the number of devices in the pool.
func (p pool) devices() int32 {
	var count int32
	for _, slice := range p.slices {
		count += int32(len(slice.Spec.Devices)) //nolint:gosec // the API server limits it to 128
	}
	return count
}

// node is the node that all slices belong to, nil if there is none.
func (p pool) node() *string {
	name := ptr.Deref(p.slices[0].Spec.NodeName, "")
	for _, slice := range p.slices[1:] {
		if ptr.Deref(slice.Spec.NodeName, "") != name {
			return nil
		}
	}
	if name == "" {
		return nil
	}
	return &name
}

// status describes a pool of a driver, of whose devices so many are allocated. Of an incomplete
// pool nothing is counted.
func (p pool) status(driver string, allocated int32) resourcev1alpha3.PoolStatus {
	status := resourcev1alpha3.PoolStatus{Driver: driver, PoolName: p.name, Generation: p.generation, NodeName: p.node()}
	if !p.isComplete() {
		incomplete := fmt.Sprintf("pool %s/%s is incomplete: observed %d/%d slices at generation %d",
			driver, p.name, len(p.slices), p.expected(), p.generation)
		status.ValidationError = ptr.To(shortened(incomplete))
		return status
	}
	total := p.devices()
	status.ResourceSliceCount = ptr.To(int32(len(p.slices))) //nolint:gosec // not that many fit into memory
	status.TotalDevices = &total
	status.AllocatedDevices = &allocated
	status.AvailableDevices = ptr.To(max(0, total-allocated))
	status.UnavailableDevices = ptr.To[int32](0)
	return status
}

// maxErrorBytes is how long the API allows a validation error to be.
const maxErrorBytes = 256

// shortened cuts a message off to what the API allows, between two characters.
func shortened(message string) string {
	if len(message) <= maxErrorBytes {
		return message
	}
	end := maxErrorBytes
	for !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end]
}
