package config

import (
	"slices"

	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"

	"kcmd.dev/pkg/config/v1beta1"
)

// Stage is the maturity of a feature gate.
type Stage string

// The stages of a feature gate.
const (
	Alpha      Stage = "alpha"
	Beta       Stage = "beta"
	GA         Stage = "GA"
	Deprecated Stage = "deprecated"
)

// Gate is one feature gate that something in this build reads.
type Gate struct {
	// Name is the key under featureGates.
	Name string
	// Default is the value of a gate the configuration does not name.
	Default bool
	// Stage is the maturity in Kubernetes 1.36.
	Stage Stage
	// Locked means that the gate cannot be changed from its default.
	Locked bool
}

// Names of the gates, for callers of Enabled.
const (
	DeploymentReplicaSetTerminatingReplicas     = "DeploymentReplicaSetTerminatingReplicas"
	GenericWorkload                             = "GenericWorkload"
	HPAConfigurableTolerance                    = "HPAConfigurableTolerance"
	HPAScaleToZero                              = "HPAScaleToZero"
	LogarithmicScaleDown                        = "LogarithmicScaleDown"
	LoggingAlphaOptions                         = "LoggingAlphaOptions"
	LoggingBetaOptions                          = "LoggingBetaOptions"
	MaxUnavailableStatefulSet                   = "MaxUnavailableStatefulSet"
	MutableSchedulingDirectivesForSuspendedJobs = "MutableSchedulingDirectivesForSuspendedJobs"
	OrderedNamespaceDeletion                    = "OrderedNamespaceDeletion"
	PodDeletionCost                             = "PodDeletionCost"
	PodLevelResources                           = "PodLevelResources"
	PreferSameTrafficDistribution               = "PreferSameTrafficDistribution"
	StaleControllerConsistencyDaemonSet         = "StaleControllerConsistencyDaemonSet"
	StaleControllerConsistencyJob               = "StaleControllerConsistencyJob"
	StaleControllerConsistencyReplicaSet        = "StaleControllerConsistencyReplicaSet"
	StaleControllerConsistencyStatefulSet       = "StaleControllerConsistencyStatefulSet"
	StatefulSetSemanticRevisionComparison       = "StatefulSetSemanticRevisionComparison"
	TaintTolerationComparisonOperators          = "TaintTolerationComparisonOperators"
	WorkloadWithJob                             = "WorkloadWithJob"
)

// FeatureGates returns the known gates by name (specs/feature-gates.md). A gate
// that nothing reads is not in the table: setting it would have no effect.
func FeatureGates() []Gate {
	return []Gate{
		{DeploymentReplicaSetTerminatingReplicas, true, Beta, false},
		{GenericWorkload, false, Alpha, false},
		{HPAConfigurableTolerance, true, Beta, false},
		{HPAScaleToZero, false, Alpha, false},
		{LogarithmicScaleDown, true, GA, true},
		{LoggingAlphaOptions, false, Alpha, false},
		{LoggingBetaOptions, true, Beta, false},
		{MaxUnavailableStatefulSet, false, Beta, false},
		{MutableSchedulingDirectivesForSuspendedJobs, true, Beta, false},
		{OrderedNamespaceDeletion, true, GA, true},
		{PodDeletionCost, true, Beta, false},
		{PodLevelResources, true, Beta, false},
		{PreferSameTrafficDistribution, true, GA, true},
		{StaleControllerConsistencyDaemonSet, true, Beta, false},
		{StaleControllerConsistencyJob, true, Beta, false},
		{StaleControllerConsistencyReplicaSet, true, Beta, false},
		{StaleControllerConsistencyStatefulSet, true, Beta, false},
		{StatefulSetSemanticRevisionComparison, true, Beta, false},
		{TaintTolerationComparisonOperators, false, Alpha, false},
		{WorkloadWithJob, false, Alpha, false},
	}
}

func lookupGate(name string) (Gate, bool) {
	for _, gate := range FeatureGates() {
		if gate.Name == name {
			return gate, true
		}
	}
	return Gate{}, false
}

// dependsOn names the gate without which another one does nothing.
var dependsOn = map[string]string{WorkloadWithJob: GenericWorkload}

// Enabled says whether a gate is on in cfg: as featureGates says, else by its
// default. An unknown gate is off.
func Enabled(cfg *v1beta1.KubeControllerManagerConfiguration, name string) bool {
	gate, ok := lookupGate(name)
	if !ok {
		return false
	}
	if value, ok := cfg.FeatureGates[name]; ok && !gate.Locked {
		return value
	}
	return gate.Default
}

// LoggingGates adapts cfg to what logsapi.Validate and ValidateAndApply take.
func LoggingGates(cfg *v1beta1.KubeControllerManagerConfiguration) (featuregate.FeatureGate, error) {
	gates := featuregate.NewFeatureGate()
	if err := logsapi.AddFeatureGates(gates); err != nil {
		return nil, err
	}
	overrides := map[string]bool{}
	for _, name := range []string{LoggingAlphaOptions, LoggingBetaOptions} {
		overrides[name] = Enabled(cfg, name)
	}
	if err := gates.SetFromMap(overrides); err != nil {
		return nil, err
	}
	return gates, nil
}

// validateGates checks the keys of featureGates.
func (v *validator) validateGates() {
	var names []string
	for _, gate := range FeatureGates() {
		names = append(names, gate.Name)
	}
	for _, name := range sortedKeys(v.cfg.FeatureGates) {
		path := join("featureGates", name)
		gate, ok := lookupGate(name)
		value := v.cfg.FeatureGates[name]
		switch {
		case !ok:
			message := ""
			if !v.report.full() {
				message = hint(name, names)
			}
			v.report.errorf(v.key(path), path, "unknown feature gate, %s", message)
		case gate.Locked && value != gate.Default:
			v.report.errorf(v.key(path), path, "the gate is %s and locked to %t: remove it", gate.Stage, gate.Default)
		case gate.Locked:
			v.report.warnf(v.key(path), path, "the gate is %s and locked to %t, setting it has no effect: remove it", gate.Stage, gate.Default)
		case value && dependsOn[name] != "" && !Enabled(v.cfg, dependsOn[name]):
			v.report.errorf(v.key(path), path, "depends on the gate %s, which is disabled: enable it too", dependsOn[name])
		case gate.Stage == GA || gate.Stage == Deprecated:
			v.report.warnf(v.key(path), path, "the gate is %s and will be removed", gate.Stage)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
