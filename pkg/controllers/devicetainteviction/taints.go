package devicetainteviction

import (
	"cmp"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/equality"
)

// poolKey is a pool of a driver.
type poolKey struct{ driver, pool string }

// positioned is a taint of a device, with its position in the list of all taints of the device.
type positioned struct {
	position int
	taint    resourcev1.DeviceTaint
}

// tainted maps the devices of a pool to their taints that evict pods. It is immutable once built.
type tainted map[string][]positioned

// taints holds the taints that evict pods.
type taints struct {
	pools map[poolKey]tainted // none of them empty
	rules map[string]*resourcev1beta2.DeviceTaintRule
}

func newTaints() taints {
	return taints{pools: map[poolKey]tainted{}, rules: map[string]*resourcev1beta2.DeviceTaintRule{}}
}

// none reports whether no device has a taint.
func (t taints) none() bool { return len(t.pools) == 0 && len(t.rules) == 0 }

// newest returns the slices with the highest generation of a pool, sorted by name.
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

// taintedIn returns the devices with taints that evict pods, given all slices of a pool. If several slices
// contain the same device, the first slice counts.
func taintedIn(pool []*resourcev1.ResourceSlice) tainted {
	found := tainted{}
	seen := map[string]bool{}
	for _, slice := range newest(pool) {
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
