package index

import (
	"slices"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestDevicesAreFoundByDriverPoolAndName(t *testing.T) {
	allocated := func(name string, devices ...[3]string) *resourcev1.ResourceClaim {
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		if devices == nil {
			return claim
		}
		claim.Status.Allocation = &resourcev1.AllocationResult{}
		for _, d := range devices {
			claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
				resourcev1.DeviceRequestAllocationResult{Driver: d[0], Pool: d[1], Device: d[2]})
		}
		return claim
	}
	published := func(name, driver, pool string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       resourcev1.ResourceSliceSpec{Driver: driver, Pool: resourcev1.ResourcePool{Name: pool}},
		}
	}
	claims := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{ClaimsByDevice: allocationKeys})
	for _, claim := range []*resourcev1.ResourceClaim{
		allocated("none"),
		allocated("one", [3]string{"a", "p", "x"}, [3]string{"a", "p", "x"}),
		allocated("two", [3]string{"a", "p", "y"}, [3]string{"b", "p/x", "x"}),
		allocated("three", [3]string{"a", "p/x", "y"}),
	} {
		if err := claims.Add(claim); err != nil {
			t.Fatal(err)
		}
	}
	pools := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{SlicesByPool: sliceKeys})
	for _, slice := range []*resourcev1.ResourceSlice{published("one", "a", "p"), published("two", "a", "p"), published("three", "a", "q"), published("four", "b", "p")} {
		if err := pools.Add(slice); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		in    cache.Indexer
		index string
		key   string
		want  []string
	}{
		"claims of a driver":             {claims, ClaimsByDevice, Driver("a"), []string{"ns/one", "ns/three", "ns/two"}},
		"claims of a pool":               {claims, ClaimsByDevice, Pool("a", "p"), []string{"ns/one", "ns/two"}},
		"claims of a pool with a slash":  {claims, ClaimsByDevice, Pool("a", "p/x"), []string{"ns/three"}},
		"claims of a device":             {claims, ClaimsByDevice, Device("a", "p", "x"), []string{"ns/one"}},
		"claims of a device of a driver": {claims, ClaimsByDevice, Device("b", "p/x", "x"), []string{"ns/two"}},
		"slices of a driver":             {pools, SlicesByPool, Driver("a"), []string{"one", "three", "two"}},
		"slices of a pool":               {pools, SlicesByPool, Pool("a", "p"), []string{"one", "two"}},
		"slices of no pool":              {pools, SlicesByPool, Pool("b", "q"), nil},
	} {
		got, err := tc.in.IndexKeys(tc.index, tc.key)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}
