package main

import (
	"fmt"

	clientfeatures "k8s.io/client-go/features"
)

// clientGates holds client-go's own feature gates at their defaults. Without it,
// environment variables would change them: the behaviour of the process would not be all
// in its file, and controllers rely on some of them to see their own writes.
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
