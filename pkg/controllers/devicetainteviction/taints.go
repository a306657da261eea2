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

// taintedPool maps nodes to the devices of a pool that are tainted for pods on them. It is immutable once built. A node
// with slices of its own has an entry, even if no device is tainted for it. The entry "" is for all other nodes.
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

// byNode returns the slices of a pool that count for pods on a node: those of the highest generation among the slices of
// the node and those of no node. The entry "" is for nodes that have no slices of their own.
func byNode(pool []*resourcev1.ResourceSlice) map[string][]*resourcev1.ResourceSlice {
	all := map[string][]*resourcev1.ResourceSlice{}
	for _, slice := range pool {
		all[nodeOf(slice)] = append(all[nodeOf(slice)], slice)
	}
	shared := all[""]
	for node, own := range all {
		if node != "" {
			own = slices.Concat(shared, own)
		}
		all[node] = newest(own)
	}
	return all
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
// none.
func taintedIn(pool []*resourcev1.ResourceSlice) taintedPool {
	found := taintedPool{}
	some := false
	for node, counting := range byNode(pool) {
		found[node] = taintedBy(counting)
		some = some || len(found[node]) > 0
	}
	if !some {
		return nil
	}
	return found
}

// taintedBy returns the devices with taints that evict pods, given the slices that count. If several slices contain the
// same device, the first slice counts.
func taintedBy(counting []*resourcev1.ResourceSlice) tainted {
	found := tainted{}
	seen := map[string]bool{}
	for _, slice := range counting {
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			if seen[device.Name] {
				continue
			}
			seen[device.Name] = true
			if taints := evicting(device); taints != nil {
				found[device.Name] = taints
			}
		}
	}
	return found
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
	return selector != nil && isOrUnset(selector.Driver, driver) && isOrUnset(selector.Pool, pool) && isOrUnset(selector.Device, device)
}

func isOrUnset(selected *string, name string) bool { return selected == nil || *selected == name }
