package faults

import "slices"

// Scenarios are all scenarios.
func Scenarios() []Scenario {
	return slices.Concat(
		[]Scenario{replicaSet(), deployment(), statefulSet(), job()},
		podScenarios(),
		jobScenarios(),
		serviceScenarios(),
		policyScenarios(),
		claimScenarios(),
		bootstrapScenarios(),
		accountScenarios(),
		collectionScenarios(),
		[]Scenario{volumeBinder(), attachDetach(), volumeExpander(), volumeProtection(), classProtection()},
		[]Scenario{nodeLifecycle(), taintEviction(), podGarbageCollector(), nodeIPAM(), nodeTTL()},
		cloudScenarios(),
		cleaningScenarios(),
		[]Scenario{autoscalerWithMetrics(), trustBundlePublisher(), podGroupProtection(), poolStatus(), seLinuxWarning()},
		[]Scenario{certificates(), roleAggregation(), serviceRanges(), admissionPolicies(), storageVersionGC(), storageVersionMigrator(), deviceTaintEviction()},
	)
}
