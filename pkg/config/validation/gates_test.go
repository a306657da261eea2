package validation_test

import (
	"testing"

	"kcmd.dev/pkg/config/gates"
)

// Pins MGR-24, MGR-113, MGR-114 and MGR-179.
func TestValidateGates(t *testing.T) {
	checkProblems(t, []problemTest{
		{"emulatedVersion: 1.36", []string{
			"3:18: emulatedVersion: must be a string, not the number 1.36: write \"1.36\"",
		}},
		{"emulatedVersion: '1.32'", []string{
			"3:18: emulatedVersion: must be one of 1.33, 1.34, 1.35, 1.36, not \"1.32\"",
		}},
		{"emulatedVersion: '1.35'\nminCompatibilityVersion: '1.35'", nil},
		{"emulatedVersion: '1.34'\nminCompatibilityVersion: '1.35'", []string{
			"4:26: minCompatibilityVersion: must not be after emulatedVersion (1.34)",
		}},
		{"emulatedVersion: '1.34'\nfeatureGates: {WorkloadWithJob: true, OrderedNamespaceDeletion: false, HPAScaleToZero: true}", []string{
			"4:16: featureGates.WorkloadWithJob: Kubernetes 1.34, set by emulatedVersion, does not have the gate: it exists in 1.36 and later",
			"4:39: featureGates.OrderedNamespaceDeletion: the gate is GA and locked to true: remove it",
		}},
		{"emulatedVersion: '1.33'\nfeatureGates: {OrderedNamespaceDeletion: false}", nil},
		{"emulatedVersion: 'x'\nfeatureGates: {Foo: false}", []string{
			"3:18: emulatedVersion: must be one of 1.33, 1.34, 1.35, 1.36, not \"x\"",
		}},
		{"featureGates: {AtomicFIFO: false}", []string{
			"3:16: featureGates.AtomicFIFO: cannot be disabled while the gates that need it are enabled: StaleControllerConsistencyDaemonSet, StaleControllerConsistencyJob, StaleControllerConsistencyReplicaSet, StaleControllerConsistencyStatefulSet",
			"3:16: warning: featureGates.AtomicFIFO: has no effect: nothing in this build reads the gate",
		}},
		{"featureGates: {AllBeta: false}", nil},
		{"featureGates: {AllAlpha: true}", nil},
		{"featureGates: {AllBeta: false, StaleControllerConsistencyJob: true}", []string{
			"3:32: featureGates.StaleControllerConsistencyJob: depends on the gate AtomicFIFO, which is disabled: enable it too",
		}},
		{"featureGates: {DRADeviceTaints: true, KMSv1: true, InPlacePodLevelResourcesVerticalScaling: true, PodLevelResources: false, NodeDeclaredFeatures: false}", []string{
			"3:39: warning: featureGates.KMSv1: has no effect: nothing in this build reads the gate",
			"3:52: featureGates.InPlacePodLevelResourcesVerticalScaling: depends on the gates PodLevelResources, NodeDeclaredFeatures, which are disabled: enable them too",
			"3:52: warning: featureGates.InPlacePodLevelResourcesVerticalScaling: has no effect: nothing in this build reads the gate",
			"3:125: featureGates.NodeDeclaredFeatures: cannot be disabled while the gates that need it are enabled: ExtendWebSocketsToKubelet, InPlacePodVerticalScalingInitContainers, RestartAllContainersOnContainerExits",
			"3:125: warning: featureGates.NodeDeclaredFeatures: has no effect: nothing in this build reads the gate",
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

// At every version, turning stages on or off is no mistake.
func TestStagesCanBeSwitchedAtEveryVersion(t *testing.T) {
	for _, version := range gates.Versions() {
		for _, set := range []string{"", "AllBeta: true", "AllAlpha: true, AllBeta: true", "AllAlpha: false, AllBeta: false"} {
			text := "emulatedVersion: '" + version + "'\nfeatureGates: {" + set + "}\n"
			if problems := problemsOf(t, header+text); problems != "" {
				t.Errorf("%s has problems:\n%s", text, problems)
			}
		}
	}
}
