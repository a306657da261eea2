package resourcepoolstatusrequest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const driver = "gpu.example.com"

// slice is one of count slices of a pool, at a generation, with two devices and on a node. Its name
// says all of that.
func slice(pool string, generation, count int64, n int, change ...func(*resourcev1.ResourceSlice)) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: "100", Name: fmt.Sprintf("%s-%d-%d", strings.ToLower(pool), generation, n)},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: ptr.To("node"), Devices: []resourcev1.Device{{Name: "a"}, {Name: "b"}},
			Pool: resourcev1.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: count},
		},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func onNode(name *string) func(*resourcev1.ResourceSlice) {
	return func(s *resourcev1.ResourceSlice) { s.Spec.NodeName = name }
}

// status is that of a complete pool of generation 1 on the node.
func status(pool string, slices, total, allocated, available int32) resourcev1alpha3.PoolStatus {
	return resourcev1alpha3.PoolStatus{
		Driver: driver, PoolName: pool, Generation: 1, NodeName: ptr.To("node"), ResourceSliceCount: &slices,
		TotalDevices: &total, AllocatedDevices: &allocated, AvailableDevices: &available, UnavailableDevices: ptr.To[int32](0),
	}
}

// incomplete is the status of a pool that is not complete.
func incomplete(pool string, generation int64, why string) resourcev1alpha3.PoolStatus {
	return resourcev1alpha3.PoolStatus{Driver: driver, PoolName: pool, Generation: generation, NodeName: ptr.To("node"), ValidationError: &why}
}

func changed[T any](object T, change func(*T)) T {
	change(&object)
	return object
}

func TestPools(t *testing.T) {
	type slices = []*resourcev1.ResourceSlice
	type statuses = []resourcev1alpha3.PoolStatus
	noNode := func(s *resourcev1alpha3.PoolStatus) { s.NodeName = nil }
	for name, tc := range map[string]struct {
		slices    slices
		allocated int32
		want      statuses
	}{
		"RPSR-10, RPSR-12: one slice":                 {slices{slice("p", 1, 1, 1)}, 0, statuses{status("p", 1, 2, 0, 2)}},
		"RPSR-10: several slices":                     {slices{slice("p", 1, 2, 2), slice("p", 1, 2, 1)}, 1, statuses{status("p", 2, 4, 1, 3)}},
		"RPSR-12: more allocated than there are":      {slices{slice("p", 1, 1, 1)}, 3, statuses{status("p", 1, 2, 3, 0)}},
		"RPSR-13: in order of names":                  {slices{slice("q", 1, 1, 1), slice("p", 1, 1, 1)}, 0, statuses{status("p", 1, 2, 0, 2), status("q", 1, 2, 0, 2)}},
		"RPSR-10: older generations do not count":     {slices{slice("p", 1, 1, 1), slice("p", 0, 3, 1)}, 0, statuses{status("p", 1, 2, 0, 2)}},
		"RPSR-10: a newer generation comes":           {slices{slice("p", 0, 1, 1), slice("p", 1, 1, 1)}, 0, statuses{status("p", 1, 2, 0, 2)}},
		"RPSR-10: no node":                            {slices{slice("p", 1, 1, 1, onNode(nil))}, 0, statuses{changed(status("p", 1, 2, 0, 2), noNode)}},
		"RPSR-10: a node without a name":              {slices{slice("p", 1, 1, 1, onNode(ptr.To("")))}, 0, statuses{changed(status("p", 1, 2, 0, 2), noNode)}},
		"RPSR-10: several nodes":                      {slices{slice("p", 1, 2, 1), slice("p", 1, 2, 2, onNode(ptr.To("x")))}, 0, statuses{changed(status("p", 2, 4, 0, 4), noNode)}},
		"RPSR-10: a node for one of them":             {slices{slice("p", 1, 2, 1), slice("p", 1, 2, 2, onNode(nil))}, 0, statuses{changed(status("p", 2, 4, 0, 4), noNode)}},
		"RPSR-12, RPSR-25: more slices than expected": {slices{slice("p", 1, 1, 1), slice("p", 1, 1, 2)}, 0, statuses{status("p", 2, 4, 0, 4)}},
		"RPSR-24: the first slice says how many":      {slices{slice("p", 1, 3, 2), slice("p", 1, 2, 1)}, 0, statuses{status("p", 2, 4, 0, 4)}},
		"RPSR-24: the first says more":                {slices{slice("p", 1, 2, 2), slice("p", 1, 3, 1)}, 0, statuses{incomplete("p", 1, "pool gpu.example.com/p is incomplete: observed 2/3 slices at generation 1")}},
		"RPSR-12: incomplete beside a complete one": {
			slices{slice("p", 7, 2, 1), slice("q", 1, 1, 1)}, 1,
			statuses{incomplete("p", 7, "pool gpu.example.com/p is incomplete: observed 1/2 slices at generation 7"), status("q", 1, 2, 1, 1)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := statuses{}
			for _, p := range poolsOf(tc.slices) {
				got = append(got, p.status(driver, tc.allocated))
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestShortened(t *testing.T) {
	for name, tc := range map[string]struct{ message, want string }{
		"RPSR-12: short":                {"x", "x"},
		"RPSR-12: as long as may be":    {strings.Repeat("x", 256), strings.Repeat("x", 256)},
		"RPSR-12: longer":               {strings.Repeat("x", 257), strings.Repeat("x", 256)},
		"RPSR-23: within a character":   {strings.Repeat("x", 255) + "é", strings.Repeat("x", 255)},
		"RPSR-23: at its very end":      {strings.Repeat("x", 254) + "é!", strings.Repeat("x", 254) + "é"},
		"RPSR-23: within a longer one":  {strings.Repeat("x", 253) + "😀!", strings.Repeat("x", 253)},
		"RPSR-23: nothing to be cut of": {strings.Repeat("é", 128), strings.Repeat("é", 128)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := shortened(tc.message); got != tc.want {
				t.Errorf("got %d bytes: %s", len(got), got)
			}
		})
	}
}
