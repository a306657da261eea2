package faults

import "slices"

// identityComparisons are about who somebody is, what vouches for that, and what somebody may do.
func identityComparisons() []Scenario {
	return slices.Concat(
		accountComparisons(),
		requestComparisons(),
		bootstrapComparisons(),
		policyStatusComparisons(),
		[]Scenario{storageVersionCorners(), migrationCorners(), trustBundleCorners(), roleAggregationCorners()},
	)
}
