package validation_test

import (
	"testing"
)

// Pins CSRS-60, SVM-2, SVM-57 and SVM-56.
func TestValidateControllers(t *testing.T) {
	checkProblems(t, []problemTest{
		{"controllers: {certificatesigningrequest-signing-controller: {allSigners: {certFile: a}, kubeletServing: {privateKeyFile: b}, certificateDuration: 1s}}", []string{
			"3:85: controllers.certificatesigningrequest-signing-controller.allSigners.certFile: needs privateKeyFile",
			"3:105: controllers.certificatesigningrequest-signing-controller.kubeletServing: cannot be combined with allSigners: set either the CA of all signers or the CAs of single signers",
			"3:122: controllers.certificatesigningrequest-signing-controller.kubeletServing.privateKeyFile: needs certFile",
			"3:147: controllers.certificatesigningrequest-signing-controller.certificateDuration: must be 10m or more, not 1s",
		}},
		{"controllers: {certificatesigningrequest-signing-controller: {allSigners: {certFile: /c, privateKeyFile: /k}}}", nil},
		{"controllers: {node-lifecycle-controller: {secondaryNodeEvictionRate: 0.1}}", nil},
		{"controllers: {node-lifecycle-controller: {nodeMonitorGracePeriod: x}}", []string{
			"3:67: controllers.node-lifecycle-controller.nodeMonitorGracePeriod: must be a duration such as 500ms, 10s, 5m or 1h30m, not the string \"x\"",
		}},
		{"controllers: {node-lifecycle-controller: {nodeMonitorPeriod: 1m, nodeEvictionRate: 0.001, unhealthyZoneThreshold: 1.5}}", []string{
			"3:62: warning: controllers.node-lifecycle-controller.nodeMonitorPeriod: nodeMonitorGracePeriod (50s) should be more than nodeMonitorPeriod (1m): a node that stops reporting may be noticed late",
			"3:84: warning: controllers.node-lifecycle-controller.nodeEvictionRate: secondaryNodeEvictionRate (0.01) is more than nodeEvictionRate (0.001): nodes in a disrupted zone should be tainted more slowly",
			"3:115: controllers.node-lifecycle-controller.unhealthyZoneThreshold: must be 0 to 1, not 1.5",
		}},
		{"controllers: {persistentvolume-binder-controller: {dynamicProvisioning: false, hostPathProvisioning: true}}", []string{
			"3:102: warning: controllers.persistentvolume-binder-controller.hostPathProvisioning: has no effect without dynamicProvisioning",
			"3:102: warning: controllers.persistentvolume-binder-controller.hostPathProvisioning: is for tests on a single node: pods can write to the node's disk",
		}},
		{"controllers: {storage-version-migrator-controller: {enabled: true, migrationRate: -1}, garbage-collector-controller: {enabled: false}}", []string{
			"3:62: controllers.storage-version-migrator-controller.enabled: needs garbage-collector-controller, which is disabled",
			"3:62: warning: controllers.storage-version-migrator-controller.enabled: the controller does not run: it needs the feature gate StorageVersionMigrator, which is off",
			"3:83: controllers.storage-version-migrator-controller.migrationRate: must be 0 to 100000, not -1",
		}},
		{"featureGates: {StorageVersionMigrator: true}\ncontrollers: {garbage-collector-controller: {enabled: false}}", []string{
			"3:16: featureGates.StorageVersionMigrator: enables storage-version-migrator-controller, which needs garbage-collector-controller, which is disabled",
		}},
		{"featureGates: {StorageVersionMigrator: true}\ncontrollers: {garbage-collector-controller: {enabled: false}, storage-version-migrator-controller: {enabled: false}}", nil},
		{"controllers: {garbage-collector-controller: {ignoredResources: [{group: a}, {resource: Pods}]}}", []string{
			"3:65: controllers.garbage-collector-controller.ignoredResources[0].resource: is missing",
			"3:88: controllers.garbage-collector-controller.ignoredResources[1].resource: must be the plural name of a resource, of lower-case letters, digits and '-', not \"Pods\", did you mean \"pods\"?",
		}},
		{"controllers: {garbage-collector-controller: {ignoredResources: [{group: '', resource: a}, {group: b.example.org, resource: c}, {group: apps/v1, resource: d}, {group: Apps, resource: e}]}}", []string{
			"3:136: controllers.garbage-collector-controller.ignoredResources[2].group: must be an API group without a version, such as apps or events.k8s.io, or empty, not \"apps/v1\", did you mean \"apps\"?",
			"3:167: controllers.garbage-collector-controller.ignoredResources[3].group: must be an API group without a version, such as apps or events.k8s.io, or empty, not \"Apps\", did you mean \"apps\"?",
		}},
		{"pausedNamespaces: [a, A, a]\ncontrollers: {deployment-controller: {paused: true, pausedNamespaces: [b, a.b]}, job-controller: {pausedNamespaces: [a, b]}, ttl-controller: {pausedNamespaces: [a]}}", []string{
			"3:23: pausedNamespaces[1]: must be a name of lower-case letters, digits and '-' that starts and ends with a letter or digit, not \"A\", did you mean \"a\"?",
			"3:26: pausedNamespaces[2]: \"a\" is already in the list",
			"4:75: controllers.deployment-controller.pausedNamespaces[1]: must be a name of lower-case letters, digits and '-' that starts and ends with a letter or digit, not \"a.b\"",
			"4:118: warning: controllers.job-controller.pausedNamespaces[0]: has no effect: pausedNamespaces has \"a\" for all controllers",
			"4:161: controllers.ttl-controller.pausedNamespaces: ttl-controller writes no objects in namespaces: pause it as a whole with paused, or remove the setting",
		}},
		{"controllers: {ttl-controller: {paused: true}, job-controller: {pausedNamespaces: []}}", nil},
		{"controllers: {node-route-controller: {enabled: true}, ttl-controller: {enabled: false, resyncPeriod: 1h}, resourcequota-controller: {concurrentSyncs: 0}}", []string{
			"3:48: warning: controllers.node-route-controller.enabled: the controller stays idle until cloud.provider names a provider that is linked into the program",
			"3:151: controllers.resourcequota-controller.concurrentSyncs: must be 1 to 1000, not 0",
		}},
		{"controllers: {cloud-node: {}, cloud-node-controller: {enabled: true}}", []string{
			"3:15: controllers.cloud-node: \"cloud-node\" is a former name: write \"cloud-node-controller\"",
			"3:64: warning: controllers.cloud-node-controller.enabled: the controller stays idle until cloud.provider names a provider that is linked into the program",
		}},
		{"controllers: {podgroup-protection-controller: {enabled: true}, device-taint-eviction-controller: {enabled: true}}\nemulatedVersion: '1.33'", []string{
			"3:57: warning: controllers.podgroup-protection-controller.enabled: the controller does not run: it needs the feature gate GenericWorkload, which is off",
			"3:108: warning: controllers.device-taint-eviction-controller.enabled: the controller does not run: it needs the feature gate DRADeviceTaints, which is off",
		}},
		{"controllers: {podgroup-protection-controller: {enabled: true}}\nfeatureGates: {GenericWorkload: true}", nil},
		{"controllers: {podgroup-protection-controller: {enabled: true}}\nfeatureGates: {GenericWorkload: 1}", []string{
			"4:33: featureGates.GenericWorkload: must be true or false, not the number 1",
		}},
		{"controllers: {podgroup-protection-controller: {enabled: false, resyncPeriod: 1h}}", nil},
		{"controllerStartInterval: 1h", []string{
			"3:26: controllerStartInterval: must be 0s to 10m, where 0s means not at all, not 1h",
		}},
		{"volumes: {flexVolumePluginDirectory: /x}", nil},
	})
}
