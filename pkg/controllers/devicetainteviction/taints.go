package devicetainteviction

import (
	"cmp"
	"maps"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

// poolKey is a pool of a driver.
type poolKey struct{ driver, pool string }

// positioned is a taint of a device, with its position in the list of all taints of the device.
type positioned struct {
	position int
	taint    resourcev1.DeviceTaint
}

// tainted maps devices of a pool to their taints that evict pods. It is immutable once built.
type tainted map[string][]positioned

// taintedPool maps nodes to the devices of a pool that are tainted for pods on them. It is immutable once built. The
// entry "" is for all nodes without an entry of their own; a node needs one, which may be empty, if its slices matter.
//
// The credentials of a node permit slices for that node only, but of every pool and generation. They must not have pods
// evicted from other nodes, nor prevent that.
type taintedPool map[string]tainted

// on returns the devices that are tainted for pods on a node.
func (p taintedPool) on(node string) tainted {
	if own, ok := p[node]; ok {
		return own
	}
	return p[""]
}

// devices returns the devices that are tainted for pods on some node.
func (p taintedPool) devices() []string {
	return p.differing(nil)
}

// differing returns the devices whose taints differ for pods on some node.
func (p taintedPool) differing(other taintedPool) []string {
	found := map[string]bool{}
	for _, pool := range []taintedPool{p, other} {
		for node := range pool {
			for _, device := range differing(p.on(node), other.on(node)) {
				found[device] = true
			}
		}
	}
	return slices.Collect(maps.Keys(found))
}

// taints holds the taints that evict pods.
type taints struct {
	pools map[poolKey]taintedPool // in each of them some device is tainted
	rules map[string]*resourcev1beta2.DeviceTaintRule
}

func newTaints() taints {
	return taints{pools: map[poolKey]taintedPool{}, rules: map[string]*resourcev1beta2.DeviceTaintRule{}}
}

// none reports whether no device has a taint.
func (t taints) none() bool { return len(t.pools) == 0 && len(t.rules) == 0 }

// nodeOf returns the node of a slice, "" if it is not for one node by name.
func nodeOf(slice *resourcev1.ResourceSlice) string { return ptr.Deref(slice.Spec.NodeName, "") }

// byNode returns the slices of a pool that may count, by their nodes, "" for those of no node, which all nodes share.
// For pods on a node, the highest generation among its slices and the shared ones counts. Slices of a node that are
// older than the shared ones are left out. Shared slices that are older than those of a node count for other nodes.
func byNode(pool []*resourcev1.ResourceSlice) map[string][]*resourcev1.ResourceSlice {
	all := map[string][]*resourcev1.ResourceSlice{}
	for _, slice := range pool {
		all[nodeOf(slice)] = append(all[nodeOf(slice)], slice)
	}
	for node, own := range all {
		all[node] = newest(own)
	}
	shared := all[""]
	maps.DeleteFunc(all, func(_ string, own []*resourcev1.ResourceSlice) bool {
		return compareGenerations(own, shared) < 0
	})
	return all
}

// compareGenerations compares slices of one generation with those of another. No slices are lower than any.
func compareGenerations(a, b []*resourcev1.ResourceSlice) int {
	if len(a) == 0 || len(b) == 0 {
		return cmp.Compare(len(a), len(b))
	}
	return cmp.Compare(a[0].Spec.Pool.Generation, b[0].Spec.Pool.Generation)
}

// newest returns the slices with the highest generation, sorted by name.
func newest(pool []*resourcev1.ResourceSlice) []*resourcev1.ResourceSlice {
	var found []*resourcev1.ResourceSlice
	for _, slice := range pool {
		if len(found) > 0 && slice.Spec.Pool.Generation > found[0].Spec.Pool.Generation {
			found = found[:0]
		}
		if len(found) == 0 || slice.Spec.Pool.Generation == found[0].Spec.Pool.Generation {
			found = append(found, slice)
		}
	}
	slices.SortFunc(found, func(a, b *resourcev1.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// taintedIn returns the devices with taints that evict pods, given all slices of a pool. It returns nil if there are
// none. Nodes that share devices cost no more for that, unless they change what is tainted in the same generation.
func taintedIn(pool []*resourcev1.ResourceSlice) taintedPool {
	counting := byNode(pool)
	shared := devicesOf(counting[""])
	found := taintedPool{"": shared.tainted()}
	for node, own := range counting {
		switch {
		case node == "":
		case compareGenerations(own, counting[""]) > 0:
			if has := devicesOf(own).tainted(); len(has)+len(found[""]) > 0 {
				found[node] = has
			}
		default:
			if changed := devicesOf(own).changed(shared); len(changed) > 0 {
				found[node] = changed.over(found[""])
			}
		}
	}
	if len(found) == 1 && len(found[""]) == 0 {
		return nil
	}
	return found
}

// publishedDevice is a device as it is in the slice that counts for it.
type publishedDevice struct {
	slice  string
	taints []positioned // those that evict pods
}

// devices are those of slices that count, by name.
type devices map[string]publishedDevice

// devicesOf returns the devices of slices that are sorted by name. If several contain the same device, the first one
// counts.
func devicesOf(counting []*resourcev1.ResourceSlice) devices {
	found := devices{}
	for _, slice := range counting {
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			if _, seen := found[device.Name]; !seen {
				found[device.Name] = publishedDevice{slice.Name, evicting(device)}
			}
		}
	}
	return found
}

// tainted returns the devices with taints that evict pods.
func (d devices) tainted() tainted {
	found := tainted{}
	for name, device := range d {
		if len(device.taints) > 0 {
			found[name] = device.taints
		}
	}
	return found
}

// changed returns the devices that take the place of shared ones, or come beside them, if both count: those with
// taints, and those without that take the place of one that has some.
func (d devices) changed(shared devices) tainted {
	found := tainted{}
	for name, device := range d {
		other, both := shared[name]
		if both && other.slice < device.slice {
			continue
		}
		if len(device.taints)+len(other.taints) > 0 {
			found[name] = device.taints
		}
	}
	return found
}

// over returns the devices that are tainted if those in t take the place of shared ones. Those without taints are
// left out.
func (t tainted) over(shared tainted) tainted {
	all := maps.Clone(shared)
	maps.Copy(all, t)
	maps.DeleteFunc(all, func(_ string, taints []positioned) bool { return len(taints) == 0 })
	return all
}

// evicting returns the taints of a device that evict pods.
func evicting(device *resourcev1.Device) []positioned {
	var found []positioned
	for i := range device.Taints {
		if device.Taints[i].Effect == resourcev1.DeviceTaintEffectNoExecute {
			found = append(found, positioned{i, device.Taints[i]})
		}
	}
	return found
}

// hasEvicting reports whether a slice has a device with a taint that evicts pods.
func hasEvicting(slice *resourcev1.ResourceSlice) bool {
	return slices.ContainsFunc(slice.Spec.Devices, func(device resourcev1.Device) bool { return evicting(&device) != nil })
}

// differing returns the devices whose taints differ.
func differing(before, after tainted) []string {
	var devices []string
	for device, taints := range before {
		if !slices.EqualFunc(taints, after[device], samePositioned) {
			devices = append(devices, device)
		}
	}
	for device := range after {
		if _, ok := before[device]; !ok {
			devices = append(devices, device)
		}
	}
	return devices
}

func samePositioned(a, b positioned) bool {
	return a.position == b.position && equality.Semantic.DeepEqual(a.taint, b.taint)
}

// selects reports whether a rule taints a device. A rule without a selector taints none.
func selects(rule *resourcev1beta2.DeviceTaintRule, driver, pool, device string) bool {
	selector := rule.Spec.DeviceSelector
	return selector != nil && isOrUnset(selector.Driver, driver) &&
		isOrUnset(selector.Pool, pool) && isOrUnset(selector.Device, device)
}

func isOrUnset(selected *string, name string) bool { return selected == nil || *selected == name }
