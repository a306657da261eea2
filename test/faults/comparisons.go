package faults

import "slices"

// Comparisons are the scenarios that are played beside upstream only: they say little about faults that Scenarios do not
// say, and much about what has to be the same.
func Comparisons() []Scenario {
	return slices.Concat(
		jobsComparisons(),
		workloadComparisons(),
		nodesComparisons(),
		identityComparisons(),
		storageComparisons(),
		servicesComparisons(),
	)
}
