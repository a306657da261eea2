package suites

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Suite is one of upstream's.
type Suite struct {
	// Name is its folder below test/integration.
	Name string
	// Left are the tests that are left out, by name, and why. A name with a slash is that of a part of a test.
	Left map[string]string
}

// skip is the pattern of what is left out, for -test.skip; empty if nothing is.
func (s Suite) skip() string {
	var patterns []string
	for _, name := range slices.Sorted(maps.Keys(s.Left)) {
		patterns = append(patterns, "^"+strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^")+"$")
	}
	return strings.Join(patterns, "|")
}

// Why a test is left out.
const (
	constants = "it shortens times that are constants of the manager"
	gates     = "it switches a feature gate and expects that the next reconcile knows"
	inside    = "it looks into the controller's memory"
	releases  = "it emulates a release that neither program emulates"
	metrics   = "it reads the controller's metrics from its own process"
)

// Suites returns all that are run, in the order of their names.
func Suites() []Suite {
	return []Suite{
		{Name: "certificates"},
		{Name: "clustertrustbundles", Left: map[string]string{"TestClusterTrustBundlesPublisherController": metrics}},
		{Name: "cronjob"},
		{Name: "daemonset"},
		{Name: "deployment", Left: map[string]string{"TestTerminatingReplicasDeploymentStatus": gates}},
		{Name: "disruption", Left: map[string]string{"TestStalePodDisruption/stale-condition": constants}},
		{Name: "dra"},
		{Name: "dualstack"},
		{Name: "endpoints"},
		{Name: "endpointslice"},
		{Name: "evictions"},
		{Name: "garbagecollector", Left: map[string]string{
			"TestCascadingDeleteOnCRDConversionFailure": inside + ", whether its caches are complete",
		}},
		{Name: "job", Left: map[string]string{
			"TestBackoffLimitPerIndex_JobPodsCreatedWithExponentialBackoff": constants,
			"TestBackoffLimitPerIndex_Reenabling":                           constants,
			"TestDelayTerminalPhaseCondition":                               releases,
			"TestJobPodFailurePolicy/pod_status_matching_the_configured_Ignore_rule_on_pod_conditions;_pod_failure_not_counted": constants,
			"TestJobPodsCreatedWithExponentialBackoff":                              constants,
			"TestSuccessPolicy/all_indexes_succeeded;_JobSuccessPolicy_is_disabled": releases,
		}},
		{Name: "namespace"},
		{Name: "node"},
		{Name: "podcertificaterequests", Left: map[string]string{"TestCleanerController": constants}},
		{Name: "podgc", Left: map[string]string{
			"TestPodGcForPodsWithDuplicatedFieldKeys": constants,
			"TestPodGcOrphanedPodsWithFinalizer":      constants,
		}},
		{Name: "quota"},
		{Name: "replicaset"},
		{Name: "replicationcontroller"},
		{Name: "scheduler/taint"},
		{Name: "service"},
		{Name: "servicecidr"},
		{Name: "statefulset"},
		{Name: "storageversion"},
		{Name: "storageversionmigrator"},
		{Name: "ttlcontroller"},
	}
}
