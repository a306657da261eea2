package slicewrites

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/endpointslice/util"
	"k8s.io/utils/ptr"
)

// Pins EPS-65.
func TestTheLibraryCannotReorderWhatIsCached(t *testing.T) {
	ports := func(numbers ...int32) (all []discoveryv1.EndpointPort) {
		for _, n := range numbers {
			all = append(all, discoveryv1.EndpointPort{Port: ptr.To(n)})
		}
		return all
	}
	for name, tc := range map[string]struct {
		slice  discoveryv1.EndpointSlice
		shared bool
	}{
		"one port, one address": {discoveryv1.EndpointSlice{Ports: ports(1), Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"1"}}}}, true},
		"sorted addresses":      {discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"1", "2"}}}}, true},
		"several ports":         {discoveryv1.EndpointSlice{Ports: ports(5, 4, 3, 2, 1)}, false},
		"unsorted addresses":    {discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"1"}}, {Addresses: []string{"2", "1"}}}}, false},
		"both":                  {discoveryv1.EndpointSlice{Ports: ports(3, 1, 2), Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"2", "1"}}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cached := tc.slice.DeepCopy()
			got := Sortable([]*discoveryv1.EndpointSlice{cached})[0]
			if (got == cached) != tc.shared {
				t.Errorf("shared = %v, want %v", got == cached, tc.shared)
			}
			if !equality.Semantic.DeepEqual(got, &tc.slice) {
				t.Errorf("copy differs: %+v", got)
			}
			util.NewPortMapKey(got.Ports)
			for i := range got.Endpoints {
				util.EndpointSet{}.Get(&got.Endpoints[i])
			}
			if !equality.Semantic.DeepEqual(cached, &tc.slice) {
				t.Errorf("the cached slice was reordered: %+v", cached)
			}
		})
	}
}
