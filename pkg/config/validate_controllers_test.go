package config

import "testing"

func TestValidateControllers(t *testing.T) {
	checkProblems(t, []problemTest{
		{"controllers: {certificatesigningrequest-signing-controller: {allSigners: {certFile: a}, kubeletServing: {privateKeyFile: b}, certificateDuration: 1s}}", []string{
			"3:85: controllers.certificatesigningrequest-signing-controller.allSigners.certFile: needs privateKeyFile",
			"3:105: controllers.certificatesigningrequest-signing-controller.kubeletServing: cannot be combined with allSigners: set either the CA of all signers or those of single ones",
			"3:122: controllers.certificatesigningrequest-signing-controller.kubeletServing.privateKeyFile: needs certFile",
			"3:147: controllers.certificatesigningrequest-signing-controller.certificateDuration: must be 10m to 87600h, not 1s",
		}},
		{"controllers: {node-lifecycle-controller: {nodeMonitorPeriod: 1m, nodeEvictionRate: 0.001, unhealthyZoneThreshold: 1.5}}", []string{
			"3:62: controllers.node-lifecycle-controller.nodeMonitorPeriod: nodeMonitorGracePeriod (50s) must be more than nodeMonitorPeriod (1m)",
			"3:84: warning: controllers.node-lifecycle-controller.nodeEvictionRate: secondaryNodeEvictionRate (0.01) is more than nodeEvictionRate (0.001): a disrupted zone should be treated with more care, not less",
			"3:115: controllers.node-lifecycle-controller.unhealthyZoneThreshold: must be 0 to 1, not 1.5",
		}},
		{"controllers: {persistentvolume-binder-controller: {dynamicProvisioning: false, hostPathProvisioning: true}}", []string{
			"3:102: warning: controllers.persistentvolume-binder-controller.hostPathProvisioning: is for tests on a single node: pods can write to the node's disk",
			"3:102: controllers.persistentvolume-binder-controller.hostPathProvisioning: needs dynamicProvisioning",
		}},
		{"controllers: {storage-version-migrator-controller: {enabled: true}, garbage-collector-controller: {enabled: false}}", []string{
			"3:62: controllers.storage-version-migrator-controller.enabled: needs garbage-collector-controller, which is disabled",
			"3:62: controllers.storage-version-migrator-controller.enabled: storage-version-migrator-controller is not part of this build and cannot be enabled: remove the setting, or set it to false",
		}},
		{"controllers: {garbage-collector-controller: {ignoredResources: [{group: a}, {resource: Pods}]}}", []string{
			"3:65: controllers.garbage-collector-controller.ignoredResources[0].resource: is missing",
			"3:88: controllers.garbage-collector-controller.ignoredResources[1].resource: must be at most 253 lower-case letters, digits and '-', as in the plural name of a resource, not \"Pods\"",
		}},
		{"controllers: {taint-eviction-controller: {enabled: true}, ttl-controller: {enabled: false, resyncPeriod: 1h}, resourcequota-controller: {concurrentSyncs: 0}}", []string{
			"3:52: controllers.taint-eviction-controller.enabled: taint-eviction-controller is not part of this build and cannot be enabled: remove the setting, or set it to false",
			"3:155: controllers.resourcequota-controller.concurrentSyncs: must be 1 to 1000, not 0",
		}},
		{"controllers: {cloud-node: {}, cloud-node-controller: {enabled: true}}", []string{
			"3:15: controllers.cloud-node: \"cloud-node\" is a former name: write \"cloud-node-controller\"",
			"3:64: controllers.cloud-node-controller.enabled: cloud-node-controller is not part of this build and cannot be enabled: remove the setting, or set it to false",
		}},
		{"controllerStartInterval: 1h", []string{
			"3:26: controllerStartInterval: must be 0s to 10m, where 0s means not at all, not 1h",
		}},
		{"volumes: {flexVolumePluginDirectory: /x}", nil},
	})
}
