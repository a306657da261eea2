package app

import (
	"testing"

	clientfeatures "k8s.io/client-go/features"
)

// Pins MGR-115.
func TestTheEnvironmentDoesNotChangeClientGates(t *testing.T) {
	before := clientfeatures.FeatureGates()
	t.Cleanup(func() { clientfeatures.ReplaceFeatureGates(before) })
	t.Setenv("KUBE_FEATURE_AtomicFIFO", "false")
	t.Setenv("KUBE_FEATURE_WatchListClient", "false")
	if err := pinClientGates(); err != nil {
		t.Fatal(err)
	}
	for _, feature := range []clientfeatures.Feature{clientfeatures.AtomicFIFO, clientfeatures.WatchListClient} {
		if !clientfeatures.FeatureGates().Enabled(feature) {
			t.Errorf("%s is off", feature)
		}
	}
}
