package config

import (
	"testing"

	"kcmd.dev/pkg/config/v1beta1"
)

func TestValidateGates(t *testing.T) {
	checkProblems(t, []problemTest{
		{"emulatedVersion: 1.36", []string{
			"3:18: emulatedVersion: must be a string, not the number 1.36: write \"1.36\"",
		}},
		{"emulatedVersion: '1.32'", []string{
			"3:18: emulatedVersion: must be one of 1.33, 1.34, 1.35, 1.36, not \"1.32\", did you mean \"1.33\"?",
		}},
		{"emulatedVersion: '1.34'\nminCompatibilityVersion: '1.35'", []string{
			"4:26: minCompatibilityVersion: must not be after emulatedVersion (1.34)",
		}},
		{"emulatedVersion: '1.34'\nfeatureGates: {WorkloadWithJob: true, OrderedNamespaceDeletion: false, HPAScaleToZero: true}", []string{
			"4:16: featureGates.WorkloadWithJob: Kubernetes 1.34, which emulatedVersion asks for, does not have the gate: it is in 1.36 and later",
			"4:39: featureGates.OrderedNamespaceDeletion: the gate is GA and locked to true: remove it",
		}},
		{"emulatedVersion: '1.33'\nfeatureGates: {OrderedNamespaceDeletion: false}", nil},
		{"emulatedVersion: 'x'\nfeatureGates: {Foo: false}", []string{
			"3:18: emulatedVersion: must be one of 1.33, 1.34, 1.35, 1.36, not \"x\"",
		}},
		{"featureGates: {AtomicFIFO: false}", []string{
			"3:16: featureGates.AtomicFIFO: cannot be disabled while the gates that need it are enabled: StaleControllerConsistencyDaemonSet, StaleControllerConsistencyJob, StaleControllerConsistencyReplicaSet, StaleControllerConsistencyStatefulSet",
		}},
		{"featureGates: {AllBeta: false}", nil},
		{"featureGates: {AllAlpha: true}", nil},
		{"featureGates: {AllBeta: false, StaleControllerConsistencyJob: true}", []string{
			"3:32: featureGates.StaleControllerConsistencyJob: depends on the gate AtomicFIFO, which is disabled: enable it too",
		}},
		{"featureGates: {DRADeviceTaints: true, KMSv1: true, InPlacePodLevelResourcesVerticalScaling: true, PodLevelResources: false, NodeDeclaredFeatures: false}", []string{
			"3:52: featureGates.InPlacePodLevelResourcesVerticalScaling: depends on the gates PodLevelResources, NodeDeclaredFeatures, which are disabled: enable them too",
			"3:125: featureGates.NodeDeclaredFeatures: cannot be disabled while the gates that need it are enabled: ExtendWebSocketsToKubelet, InPlacePodVerticalScalingInitContainers, RestartAllContainersOnContainerExits",
		}},
		{"featureGates: {WorkloadWithJob: true, GenericWorkload: false, AllAlpha: true}", []string{
			"3:16: featureGates.WorkloadWithJob: depends on the gate GenericWorkload, which is disabled: enable it too",
			"3:63: featureGates.AllAlpha: enables DRAWorkloadResourceClaims, which depends on the gate GenericWorkload, which is disabled: enable it too",
			"3:63: featureGates.AllAlpha: enables GangScheduling, which depends on the gate GenericWorkload, which is disabled: enable it too",
			"3:63: featureGates.AllAlpha: enables TopologyAwareWorkloadScheduling, which depends on the gate GenericWorkload, which is disabled: enable it too",
		}},
		{"featureGates: {AllBeta: false, RemoteRequestHeaderUID: true, DRADeviceTaintRules: true}", []string{
			"3:62: featureGates.DRADeviceTaintRules: depends on the gate DRADeviceTaints, which is disabled: enable it too",
		}},
		{"emulatedVersion: '1.33'\nfeatureGates: {AllBeta: true, AllAlpha: true}", nil},
	})
}

func TestEnabled(t *testing.T) {
	tests := []struct {
		name    string
		version string
		set     map[string]bool
		want    bool
	}{
		{"HPAConfigurableTolerance", "", nil, true},
		{"HPAConfigurableTolerance", "1.36", nil, true},
		{"HPAConfigurableTolerance", "1.35", nil, true},
		{"HPAConfigurableTolerance", "1.34", nil, false},
		{"HPAConfigurableTolerance", "1.34", map[string]bool{"AllAlpha": true}, true},
		{"HPAConfigurableTolerance", "1.36", map[string]bool{"AllAlpha": true, "AllBeta": false}, false},
		{"HPAConfigurableTolerance", "1.36", map[string]bool{"AllBeta": false, "HPAConfigurableTolerance": true}, true},
		{"HPAScaleToZero", "1.36", map[string]bool{"AllAlpha": true}, true},
		{"HPAScaleToZero", "1.36", map[string]bool{"AllAlpha": true, "HPAScaleToZero": false}, false},
		{"GenericWorkload", "1.34", map[string]bool{"AllAlpha": true, "GenericWorkload": true}, false}, // since 1.35
		{"OrderedNamespaceDeletion", "1.36", map[string]bool{"OrderedNamespaceDeletion": false}, true}, // locked
		{"OrderedNamespaceDeletion", "1.33", map[string]bool{"OrderedNamespaceDeletion": false}, false},
		{"InformerResourceVersion", "1.34", nil, false},
		{"InformerResourceVersion", "1.35", nil, true},
		{"Foo", "1.36", map[string]bool{"Foo": true}, false},
		{"AllAlpha", "1.36", nil, false},
	}
	for _, test := range tests {
		cfg := &v1beta1.KubeControllerManagerConfiguration{EmulatedVersion: test.version, FeatureGates: test.set}
		if got := Enabled(cfg, test.name); got != test.want {
			t.Errorf("Enabled(%s) at version %q with %v = %t, want %t", test.name, test.version, test.set, got, test.want)
		}
	}
}

// Every gate that is said to be read is a gate.
func TestGatesReadAreKnown(t *testing.T) {
	for _, name := range gatesRead() {
		if gate, ok := gateTables().at(newestMinor)[name]; !ok || !gate.Read {
			t.Errorf("%s is not in the table, or not marked as read", name)
		}
	}
}

func BenchmarkEnabled(b *testing.B) {
	cfg := v1beta1.NewDefault()
	for b.Loop() {
		Enabled(cfg, WorkloadWithJob)
	}
}
