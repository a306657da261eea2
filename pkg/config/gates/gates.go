// Package gates holds the feature gates of Kubernetes, in each version that can be emulated.
//
//  1. The table of gates is featuregates.txt: for each gate its stage, its default and whether
//     it is locked, from which version on, and the gates that it needs.
//  2. A gate has the value in featureGates, else that of AllAlpha or AllBeta for its stage,
//     else its default. A gate that the emulated version does not have is off.
//  3. Every gate that can be switched in some version is read by something in this build, or
//     testdata/gates-not-read.txt gives the reason why not.
package gates

import (
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/registry"
	"kcmd.dev/pkg/config/v1beta1"
)

// Names of the gates that something in this build reads, for callers of Enabled.
const (
	ClusterTrustBundle                          = "ClusterTrustBundle"
	CloudWatchBasedRoutes                       = "CloudControllerManagerWatchBasedRoutesReconciliation"
	CoordinatedLeaderElection                   = "CoordinatedLeaderElection"
	DRADeviceTaintRules                         = "DRADeviceTaintRules"
	DRADeviceTaints                             = "DRADeviceTaints"
	DRAResourcePoolStatus                       = "DRAResourcePoolStatus"
	DeploymentReplicaSetTerminatingReplicas     = "DeploymentReplicaSetTerminatingReplicas"
	DRAAdminAccess                              = "DRAAdminAccess"
	DRAExtendedResource                         = "DRAExtendedResource"
	DRAPrioritizedList                          = "DRAPrioritizedList"
	DRAWorkloadResourceClaims                   = "DRAWorkloadResourceClaims"
	DynamicResourceAllocation                   = "DynamicResourceAllocation"
	GenericWorkload                             = "GenericWorkload"
	HPAConfigurableTolerance                    = "HPAConfigurableTolerance"
	HPAScaleToZero                              = "HPAScaleToZero"
	InPlacePodVerticalScaling                   = "InPlacePodVerticalScaling"
	JobManagedBy                                = "JobManagedBy"
	JobPodReplacementPolicy                     = "JobPodReplacementPolicy"
	LoggingAlphaOptions                         = "LoggingAlphaOptions"
	LoggingBetaOptions                          = "LoggingBetaOptions"
	MaxUnavailableStatefulSet                   = "MaxUnavailableStatefulSet"
	MultiCIDRServiceAllocator                   = "MultiCIDRServiceAllocator"
	MutableSchedulingDirectivesForSuspendedJobs = "MutableSchedulingDirectivesForSuspendedJobs"
	OrderedNamespaceDeletion                    = "OrderedNamespaceDeletion"
	PersistentVolumeClaimUnusedSinceTime        = "PersistentVolumeClaimUnusedSinceTime"
	PodCertificateRequest                       = "PodCertificateRequest"
	PodDeletionCost                             = "PodDeletionCost"
	PodLevelResources                           = "PodLevelResources"
	PreferSameTrafficDistribution               = "PreferSameTrafficDistribution"
	RecoverVolumeExpansionFailure               = "RecoverVolumeExpansionFailure"
	RemoteRequestHeaderUID                      = "RemoteRequestHeaderUID"
	SELinuxChangePolicy                         = "SELinuxChangePolicy"
	SeparateTaintEvictionController             = "SeparateTaintEvictionController"
	StaleControllerConsistencyDaemonSet         = "StaleControllerConsistencyDaemonSet"
	StaleControllerConsistencyJob               = "StaleControllerConsistencyJob"
	StaleControllerConsistencyReplicaSet        = "StaleControllerConsistencyReplicaSet"
	StaleControllerConsistencyStatefulSet       = "StaleControllerConsistencyStatefulSet"
	StatefulSetSemanticRevisionComparison       = "StatefulSetSemanticRevisionComparison"
	StorageVersionAPI                           = "StorageVersionAPI"
	StorageVersionMigrator                      = "StorageVersionMigrator"
	TaintTolerationComparisonOperators          = "TaintTolerationComparisonOperators"
	VolumeAttributesClass                       = "VolumeAttributesClass"
	WorkloadWithJob                             = "WorkloadWithJob"
)

// Read lists the gates that something in this build reads: a controller, or the process
// itself. Setting any other known gate is allowed, because the same list is given to every
// component of a cluster, but it has no effect here, which is a warning.
func Read() []string {
	return append(registry.Gates(), CoordinatedLeaderElection, LoggingAlphaOptions, LoggingBetaOptions,
		RemoteRequestHeaderUID)
}

// Enabled reports whether a gate is on in cfg, see rule 2 of the package comment. A gate that
// the emulated version does not have is off.
func Enabled(cfg *v1beta1.KubeControllerManagerConfiguration, name string) bool {
	gate, ok := Of(cfg)[name]
	return ok && gate.EnabledBy(cfg.FeatureGates)
}

// EnabledBy reports whether the gate is on where featureGates is set.
func (g Gate) EnabledBy(set map[string]bool) bool {
	if g.Locked {
		return g.Default
	}
	if value, ok := set[g.Name]; ok {
		return value
	}
	if all := g.StageGate(); all != "" {
		if value, ok := set[all]; ok {
			return value
		}
	}
	return g.Default
}

// StageGate returns the gate that stands for all gates of the stage, if there is one.
func (g Gate) StageGate() string {
	switch g.Stage {
	case Alpha:
		return AllAlpha
	case Beta:
		return AllBeta
	}
	return ""
}

// Of returns the gates of the version that cfg emulates.
func Of(cfg *v1beta1.KubeControllerManagerConfiguration) map[string]Gate {
	minor, _ := ParseVersion(cfg.EmulatedVersion)
	return gateTables().at(minor)
}

// Logging adapts cfg to what logsapi.Validate and ValidateAndApply take.
func Logging(cfg *v1beta1.KubeControllerManagerConfiguration) (featuregate.FeatureGate, error) {
	gates := featuregate.NewFeatureGate()
	if err := logsapi.AddFeatureGates(gates); err != nil {
		return nil, err
	}
	overrides := map[string]bool{}
	for _, name := range []string{LoggingAlphaOptions, LoggingBetaOptions} {
		overrides[name] = Enabled(cfg, name)
	}
	// Without a logger: the configuration may be rejected.
	if err := gates.SetFromMapWithLogger(klog.Logger{}, overrides); err != nil {
		return nil, err
	}
	return gates, nil
}
