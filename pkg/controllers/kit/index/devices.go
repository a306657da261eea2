package index

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
)

// SlicesByPool is the name of the index of ResourceSlices by driver, and by driver and pool. Driver
// and Pool return its keys.
const SlicesByPool = "devicePool"

// ClaimsByDevice is the name of the index of ResourceClaims by their allocated devices. Driver, Pool
// and Device return its keys.
const ClaimsByDevice = "allocatedDevice"

// Driver returns the key of all objects of a device driver.
func Driver(driver string) string { return driver }

// Pool returns the key of a device pool. Driver names contain no slash.
func Pool(driver, pool string) string { return driver + "/" + pool }

// Device returns the key of a device. Slashes separate the parts of a pool name. No part is empty,
// so a pool name contains no double slash.
func Device(driver, pool, device string) string { return driver + "/" + pool + "//" + device }

// EnsureSlicesByPool adds SlicesByPool to the ResourceSlice informer if needed.
func EnsureSlicesByPool(slices cache.SharedIndexInformer) { Ensure(slices, SlicesByPool, sliceKeys) }

// EnsureClaimsByDevice adds ClaimsByDevice to the ResourceClaim informer if needed.
func EnsureClaimsByDevice(claims cache.SharedIndexInformer) {
	Ensure(claims, ClaimsByDevice, allocationKeys)
}

func sliceKeys(obj any) ([]string, error) {
	slice, ok := obj.(*resourcev1.ResourceSlice)
	if !ok {
		return nil, nil
	}
	return []string{Driver(slice.Spec.Driver), Pool(slice.Spec.Driver, slice.Spec.Pool.Name)}, nil
}

func allocationKeys(obj any) ([]string, error) {
	claim, ok := obj.(*resourcev1.ResourceClaim)
	if !ok || claim.Status.Allocation == nil {
		return nil, nil
	}
	results := claim.Status.Allocation.Devices.Results
	keys := make([]string, 0, 3*len(results)) // an index ignores duplicate keys
	for i := range results {
		driver, pool := results[i].Driver, results[i].Pool
		keys = append(keys, Driver(driver), Pool(driver, pool), Device(driver, pool, results[i].Device))
	}
	return keys, nil
}
