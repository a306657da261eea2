package app

import (
	"fmt"

	clientfeatures "k8s.io/client-go/features"
)

// clientGates keeps client-go's own feature gates at their defaults. Without it, environment
// variables could change them: then the file would not define all of the behaviour of the
// process, and controllers rely on some of these gates to see their own writes.
type clientGates map[clientfeatures.Feature]bool

// Add implements clientfeatures.Registry.
func (g clientGates) Add(specs map[clientfeatures.Feature]clientfeatures.FeatureSpec) error {
	for feature, spec := range specs {
		g[feature] = spec.Default
	}
	return nil
}

// Enabled implements clientfeatures.Gates.
func (g clientGates) Enabled(feature clientfeatures.Feature) bool { return g[feature] }

// pinClientGates has to be called before the first client is made.
func pinClientGates() error {
	gates := clientGates{}
	if err := clientfeatures.AddFeaturesToExistingFeatureGates(gates); err != nil {
		return fmt.Errorf("reading the feature gates of client-go: %w", err)
	}
	clientfeatures.ReplaceFeatureGates(gates)
	return nil
}
