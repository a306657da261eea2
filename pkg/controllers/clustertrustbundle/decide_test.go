package clustertrustbundle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Pins CTB-12.
func TestNameOf(t *testing.T) {
	// printf bundle | sha256sum | head -c 24
	const want = "kubernetes.io:kube-apiserver-serving:1e6ed65d77d6364eeaed5a74"
	if got := nameOf([]byte("bundle")); got != want {
		t.Errorf("the name is %s", got)
	}
}

func TestDecide(t *testing.T) {
	type bundles = map[string]string
	for name, test := range map[string]struct {
		existing bundles
		want     plan
	}{
		"CTB-13, CTB-13a: none":            {nil, plan{create: true}},
		"CTB-13b: other content":           {bundles{"right": "old"}, plan{update: true}},
		"CTB-13b: no content":              {bundles{"right": ""}, plan{update: true}},
		"CTB-13c: right":                   {bundles{"right": "pem"}, plan{}},
		"CTB-14, CTB-25: right and others": {bundles{"right": "pem", "b": "pem", "a": ""}, plan{surplus: []string{"a", "b"}}},
		"CTB-14: others":                   {bundles{"b": "pem"}, plan{create: true, surplus: []string{"b"}}},
		"CTB-14: wrong and others":         {bundles{"right": "old", "b": "pem"}, plan{update: true, surplus: []string{"b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide("right", "pem", test.existing)
			if len(got.surplus) == 0 {
				got.surplus = nil
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(plan{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
