package launch

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/test/must"
)

// The manager is given what differs, if it reads it and it can be given.
func TestDiffering(t *testing.T) {
	known := map[string]gates.Gate{
		"Same": {Name: "Same", Default: true, Read: true}, "On": {Name: "On", Read: true}, "Off": {Name: "Off", Default: true, Read: true},
		"Unread": {Name: "Unread"}, "Locked": {Name: "Locked", Default: true, Locked: true, Read: true},
	}
	process := featuregate.NewFeatureGate()
	specs := map[featuregate.Feature]featuregate.FeatureSpec{"Unknown": {Default: true}}
	for name, enabled := range map[featuregate.Feature]bool{"Same": true, "On": true, "Off": false, "Unread": true, "Locked": false} {
		specs[name] = featuregate.FeatureSpec{Default: enabled, PreRelease: featuregate.Beta}
	}
	must.Succeed(t, process.Add(specs))
	if got := differing(known, process); !maps.Equal(got, map[string]bool{"On": true, "Off": false}) {
		t.Errorf("the manager is given %v", got)
	}
}

func TestEmulated(t *testing.T) {
	for is, want := range map[string]string{"1.31": "1.33", "1.33": "1.33", "1.35": "1.35", "1.36.3": "1.36", "1.99": "1.36"} {
		if got := emulated(version.MustParse(is)); got != want {
			t.Errorf("%s is emulated as %s, want %s", is, got, want)
		}
	}
}
