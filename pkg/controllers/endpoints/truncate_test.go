package endpoints

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func subsetSized(number, ready, notReady int) corev1.EndpointSubset {
	list := func(n int, kind string) (all []corev1.EndpointAddress) {
		for i := range n {
			all = append(all, corev1.EndpointAddress{IP: fmt.Sprintf("%d-%s-%04d", number, kind, i)})
		}
		return all
	}
	return corev1.EndpointSubset{Addresses: list(ready, "r"), NotReadyAddresses: list(notReady, "n"), Ports: []corev1.EndpointPort{{Port: int32(number)}}}
}

// Pins EP-36b and EP-41.
func TestTruncate(t *testing.T) {
	type size = [2]int // ready, not ready
	for name, tc := range map[string]struct {
		in, want  []size
		truncated bool
	}{
		"nothing":                      {nil, nil, false},
		"at capacity":                  {[]size{{600, 100}, {0, 300}}, []size{{600, 100}, {0, 300}}, false},
		"one too many":                 {[]size{{1001, 0}}, []size{{1000, 0}}, true},
		"not ready go first":           {[]size{{1000, 1}}, []size{{1000, 0}}, true},
		"EP-36c: not ready are spread": {[]size{{280, 101}, {0, 200}, {0, 200}, {0, 201}, {0, 298}}, []size{{280, 73}, {0, 144}, {0, 144}, {0, 145}, {0, 214}}, true},
		"EP-36c: ready are spread":     {[]size{{205, 5}, {400, 5}, {402, 5}, {400, 5}, {693, 5}}, []size{{98, 0}, {191, 0}, {192, 0}, {191, 0}, {328, 0}}, true},
		"EP-76: a subset is left out":  {[]size{{1200, 0}, {0, 5}}, []size{{1000, 0}}, true},
		"rounded up until none remain": {[]size{{999, 0}, {1, 0}, {1, 0}}, []size{{999, 0}, {1, 0}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var in []corev1.EndpointSubset
			for i, s := range tc.in {
				in = append(in, subsetSized(i, s[0], s[1]))
			}
			kept, truncated := truncate(in)
			var got []size
			for _, s := range kept {
				got = append(got, size{len(s.Addresses), len(s.NotReadyAddresses)})
				original := in[s.Ports[0].Port]
				if !slices.Equal(s.Addresses, original.Addresses[:len(s.Addresses)]) ||
					!slices.Equal(s.NotReadyAddresses, original.NotReadyAddresses[:len(s.NotReadyAddresses)]) {
					t.Error("what is kept is not a prefix")
				}
			}
			if !slices.Equal(got, tc.want) || truncated != tc.truncated {
				t.Errorf("got %v %v, want %v %v", got, truncated, tc.want, tc.truncated)
			}
		})
	}
}
