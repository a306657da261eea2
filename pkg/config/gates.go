package config

import (
	"slices"
	"strings"

	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"

	"kcmd.dev/pkg/config/v1beta1"
)

// Names of the gates that something in this build reads, for callers of Enabled. Every one
// of them is in gatesRead.
const (
	CoordinatedLeaderElection                   = "CoordinatedLeaderElection"
	DeploymentReplicaSetTerminatingReplicas     = "DeploymentReplicaSetTerminatingReplicas"
	GenericWorkload                             = "GenericWorkload"
	HPAConfigurableTolerance                    = "HPAConfigurableTolerance"
	HPAScaleToZero                              = "HPAScaleToZero"
	JobManagedBy                                = "JobManagedBy"
	JobPodReplacementPolicy                     = "JobPodReplacementPolicy"
	LoggingAlphaOptions                         = "LoggingAlphaOptions"
	LoggingBetaOptions                          = "LoggingBetaOptions"
	MaxUnavailableStatefulSet                   = "MaxUnavailableStatefulSet"
	MutableSchedulingDirectivesForSuspendedJobs = "MutableSchedulingDirectivesForSuspendedJobs"
	OrderedNamespaceDeletion                    = "OrderedNamespaceDeletion"
	PodDeletionCost                             = "PodDeletionCost"
	PodLevelResources                           = "PodLevelResources"
	PreferSameTrafficDistribution               = "PreferSameTrafficDistribution"
	RemoteRequestHeaderUID                      = "RemoteRequestHeaderUID"
	StaleControllerConsistencyDaemonSet         = "StaleControllerConsistencyDaemonSet"
	StaleControllerConsistencyJob               = "StaleControllerConsistencyJob"
	StaleControllerConsistencyReplicaSet        = "StaleControllerConsistencyReplicaSet"
	StaleControllerConsistencyStatefulSet       = "StaleControllerConsistencyStatefulSet"
	StatefulSetSemanticRevisionComparison       = "StatefulSetSemanticRevisionComparison"
	TaintTolerationComparisonOperators          = "TaintTolerationComparisonOperators"
	WorkloadWithJob                             = "WorkloadWithJob"
)

// gatesRead lists the gates that something in this build reads. Setting any other known gate
// is allowed, because the same list is given to every component of a cluster, but it has no
// effect here and a warning says so.
func gatesRead() []string {
	return []string{
		CoordinatedLeaderElection,
		DeploymentReplicaSetTerminatingReplicas,
		GenericWorkload,
		HPAConfigurableTolerance,
		HPAScaleToZero,
		JobManagedBy,
		JobPodReplacementPolicy,
		LoggingAlphaOptions,
		LoggingBetaOptions,
		MaxUnavailableStatefulSet,
		MutableSchedulingDirectivesForSuspendedJobs,
		OrderedNamespaceDeletion,
		PodDeletionCost,
		PodLevelResources,
		PreferSameTrafficDistribution,
		RemoteRequestHeaderUID,
		StaleControllerConsistencyDaemonSet,
		StaleControllerConsistencyJob,
		StaleControllerConsistencyReplicaSet,
		StaleControllerConsistencyStatefulSet,
		StatefulSetSemanticRevisionComparison,
		TaintTolerationComparisonOperators,
		WorkloadWithJob,
	}
}

// Enabled says whether a gate is on in cfg: as featureGates says, else as AllAlpha or
// AllBeta say for its stage, else by its default. A gate that the emulated version does not
// have is off.
func Enabled(cfg *v1beta1.KubeControllerManagerConfiguration, name string) bool {
	gate, ok := gatesOf(cfg)[name]
	return ok && gate.enabled(cfg.FeatureGates)
}

func (g Gate) enabled(set map[string]bool) bool {
	if g.Locked {
		return g.Default
	}
	if value, ok := set[g.Name]; ok {
		return value
	}
	if all := g.stageGate(); all != "" {
		if value, ok := set[all]; ok {
			return value
		}
	}
	return g.Default
}

// stageGate is the gate that stands for all of the stage, if there is one.
func (g Gate) stageGate() string {
	switch g.Stage {
	case Alpha:
		return AllAlpha
	case Beta:
		return AllBeta
	}
	return ""
}

// gatesOf are the gates of the version that cfg emulates.
func gatesOf(cfg *v1beta1.KubeControllerManagerConfiguration) map[string]Gate {
	minor, _ := parseVersion(cfg.EmulatedVersion)
	return gateTables().at(minor)
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

// validateGates checks the keys of featureGates, and what the gates need of each other.
func (v *validator) validateGates() {
	if !v.decoded("emulatedVersion") {
		return // every gate is judged at that version
	}
	gates := gatesOf(v.cfg)
	for _, name := range sortedKeys(v.cfg.FeatureGates) {
		path := join("featureGates", name)
		gate, ok := gates[name]
		if !ok {
			v.report.errorf(v.key(path), path, "%s", v.unknownGate(name))
			continue
		}
		v.validateGate(path, gate, v.cfg.FeatureGates[name])
	}
	v.validateGateDependencies(gates)
}

// unknownGate explains a name that is no gate of the emulated version.
func (v *validator) unknownGate(name string) string {
	table := gateTables()
	if since, ok := table.since(name); ok {
		return "Kubernetes " + v.cfg.EmulatedVersion + ", which emulatedVersion asks for, does not have the gate: it is in " + since + " and later"
	}
	if v.report.terse() {
		return "unknown feature gate"
	}
	if best := nearest(name, append([]string{AllAlpha, AllBeta}, table.names...)); best != "" {
		return "unknown feature gate, " + `did you mean "` + best + `"?`
	}
	return "unknown feature gate: Kubernetes 1.36 has no gate of this or a similar name"
}

// validateGate looks at one gate that is set.
func (v *validator) validateGate(path string, gate Gate, value bool) {
	at := v.key(path)
	switch {
	case gate.Locked && value != gate.Default:
		v.report.errorf(at, path, "the gate is %s and locked to %t: remove it", gate.Stage, gate.Default)
	case gate.Locked:
		v.report.warnf(at, path, "the gate is %s and locked to %t, setting it has no effect: remove it", gate.Stage, gate.Default)
	case !gate.Read:
		v.report.warnf(at, path, "has no effect: nothing in this build reads the gate")
	case gate.Stage == GA || gate.Stage == Deprecated:
		v.report.warnf(at, path, "the gate is %s and will be removed", gate.Stage)
	}
}

// validateGateDependencies reports gates that are enabled while one that they need is not:
// at the gate that is set, which may be either of them, or the one that stands for its stage.
func (v *validator) validateGateDependencies(gates map[string]Gate) {
	set := v.cfg.FeatureGates
	if len(set) == 0 {
		return
	}
	enabled := func(name string) bool { return gates[name].enabled(set) }
	disabling := map[string][]string{} // gate that is off → gates that need it
	for _, name := range sortedKeys(gates) {
		gate := gates[name]
		if len(gate.Needs) == 0 || !enabled(name) {
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(gate.Needs), enabled)
		if len(missing) == 0 {
			continue
		}
		if by, ok := v.setBy(gate); ok {
			path := join("featureGates", by)
			subject := "depends"
			if by != name {
				subject = "enables " + name + ", which depends"
			}
			what := "the gate " + missing[0] + ", which is disabled: enable it too"
			if len(missing) > 1 {
				what = "the gates " + strings.Join(missing, ", ") + ", which are disabled: enable them too"
			}
			v.report.errorf(v.key(path), path, "%s on %s", subject, what)
			continue
		}
		for _, m := range missing {
			disabling[m] = append(disabling[m], name)
		}
	}
	for _, name := range sortedKeys(disabling) {
		by, ok := v.setBy(gates[name])
		if !ok {
			continue // the defaults of one version, which a test looks at
		}
		path := join("featureGates", by)
		subject := "cannot be disabled"
		if by != name {
			subject = "cannot disable " + name
		}
		v.report.errorf(v.key(path), path, "%s while the gates that need it are enabled: %s", subject, strings.Join(disabling[name], ", "))
	}
}

// setBy is the key of featureGates that decides about a gate.
func (v *validator) setBy(gate Gate) (string, bool) {
	for _, name := range []string{gate.Name, gate.stageGate()} {
		if _, ok := v.cfg.FeatureGates[name]; ok && !gate.Locked {
			return name, true
		}
	}
	return "", false
}

// validateVersions checks emulatedVersion and minCompatibilityVersion.
func (v *validator) validateVersions() {
	minimum := v.cfg.MinCompatibilityVersion
	if minimum == "" || !v.decoded("emulatedVersion", "minCompatibilityVersion") {
		return
	}
	emulated, _ := parseVersion(v.cfg.EmulatedVersion)
	if minor, _ := parseVersion(minimum); minor > emulated {
		v.errorf("minCompatibilityVersion", "must not be after emulatedVersion (%s)", v.cfg.EmulatedVersion)
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
