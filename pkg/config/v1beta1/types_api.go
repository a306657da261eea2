package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ResourceQuotaController configures resourcequota-controller.
type ResourceQuotaController struct {
	ControllerSettings `json:",inline"`
	// ResourceQuotas reconciled at the same time, and as many whose usage has not been
	// computed yet. Default: 5. Range: 1 to 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Period between two recalculations of all ResourceQuotas. Default: 5m. Range:
	// 0s (never), or 1s and more. A change restarts the controller.
	SyncPeriod     *metav1.Duration `json:"syncPeriod,omitempty"`
	ResyncSettings `json:",inline"`
}

// ValidatingAdmissionPolicyStatusController configures
// validatingadmissionpolicy-status-controller.
type ValidatingAdmissionPolicyStatusController struct {
	ControllerSettings `json:",inline"`
	// ValidatingAdmissionPolicies checked at the same time. Default: 5. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	ResyncSettings  `json:",inline"`
}

// StorageVersionMigratorController configures storage-version-migrator-controller. Needs
// the feature gate StorageVersionMigrator, and garbage-collector-controller.
type StorageVersionMigratorController struct {
	ControllerSettings `json:",inline"`
	// Objects that all migrations together rewrite per second. Default: 400. Range: 0 (no limit)
	// to 100000. A change restarts the controller; migrations go on where they were.
	MigrationRate  *float32 `json:"migrationRate,omitempty"`
	ResyncSettings `json:",inline"`
}

// ResourceClaimController configures resourceclaim-controller.
type ResourceClaimController struct {
	ControllerSettings `json:",inline"`
	// Pods and ResourceClaims reconciled at the same time. Default: 50. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	ResyncSettings  `json:",inline"`
}

// DeviceTaintEvictionController configures device-taint-eviction-controller. Needs
// the feature gate DRADeviceTaints.
type DeviceTaintEvictionController struct {
	ControllerSettings `json:",inline"`
	// Pods evicted at the same time. Default: 8. Range: 1 to 1000. A change
	// restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
}
