package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// StatefulSetController configures statefulset-controller.
type StatefulSetController struct {
	ControllerSettings `json:",inline"`
	// StatefulSets reconciled at the same time. Default: 5. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	ResyncSettings  `json:",inline"`
}

// DaemonSetController configures daemonset-controller.
type DaemonSetController struct {
	ControllerSettings `json:",inline"`
	// DaemonSets reconciled at the same time, and as many nodes. Default: 2. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	ResyncSettings  `json:",inline"`
}

// JobController configures job-controller.
type JobController struct {
	ControllerSettings `json:",inline"`
	// Jobs reconciled at the same time, and as many orphaned pods. Default: 5. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	ResyncSettings  `json:",inline"`
}

// CronJobController configures cronjob-controller.
type CronJobController struct {
	ControllerSettings `json:",inline"`
	// CronJobs reconciled at the same time. Default: 5. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	ResyncSettings  `json:",inline"`
}

// TTLAfterFinishedController configures ttl-after-finished-controller.
type TTLAfterFinishedController struct {
	ControllerSettings `json:",inline"`
	// Jobs reconciled at the same time. Default: 5. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	ResyncSettings  `json:",inline"`
}

// DisruptionController configures disruption-controller, which has one worker per queue.
type DisruptionController struct {
	ControllerSettings `json:",inline"`
	ResyncSettings     `json:",inline"`
}

// HorizontalPodAutoscalerController configures horizontal-pod-autoscaler-controller.
type HorizontalPodAutoscalerController struct {
	ControllerSettings `json:",inline"`
	// Autoscalers evaluated at the same time. Default: 5. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Period between two evaluations of an autoscaler. Default: 15s. Range: 1s to
	// 1h. A change restarts the controller.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// How long a higher recommendation is remembered before a workload is scaled down,
	// unless the autoscaler sets it. Default: 5m. Range: 0s (not at all) to 1h. A change
	// restarts the controller.
	DownscaleStabilization *metav1.Duration `json:"downscaleStabilization,omitempty"`
	// Deviation of the metric from its target, as a fraction, that is ignored, unless the
	// autoscaler sets it. Default: 0.1. Range: 0 to 1. A change restarts the controller.
	Tolerance *float64 `json:"tolerance,omitempty"`
	// How long after its start a pod's CPU samples may be ignored. Default: 5m. Range: 0s
	// (not at all) to 24h. A change restarts the controller.
	CPUInitializationPeriod *metav1.Duration `json:"cpuInitializationPeriod,omitempty"`
	// How long after its start changes of a pod's readiness count as its initial readiness.
	// Default: 30s. Range: 0s (not at all) to 24h. A change restarts the controller.
	InitialReadinessDelay *metav1.Duration `json:"initialReadinessDelay,omitempty"`
}

// PodGarbageCollectorController configures pod-garbage-collector-controller,
// which has one worker.
type PodGarbageCollectorController struct {
	ControllerSettings `json:",inline"`
	// Number of terminated pods that are kept in the whole cluster. Default: 12500. Range:
	// 0 (keep all) to 1000000. A change restarts the controller.
	TerminatedPodThreshold *int32 `json:"terminatedPodThreshold,omitempty"`
}

// PodGroupProtectionController configures podgroup-protection-controller,
// which has one worker and runs only with the feature gate GenericWorkload.
type PodGroupProtectionController struct {
	ControllerSettings `json:",inline"`
	ResyncSettings     `json:",inline"`
}

// GarbageCollectorController configures garbage-collector-controller.
type GarbageCollectorController struct {
	ControllerSettings `json:",inline"`
	// Objects checked for deletion at the same time, and as many owners whose dependents
	// are orphaned. Default: 20. Range: 1 to 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Resources whose objects are neither deleted nor counted as owners. Default: events of
	// the core group and of events.k8s.io. A change restarts the controller.
	IgnoredResources []GroupResource `json:"ignoredResources,omitzero"`
}

// GroupResource names a resource of any version.
type GroupResource struct {
	// Name of the API group, without a version. Default: empty, the core group.
	Group string `json:"group,omitempty"`
	// Plural name of the resource, in lower case.
	Resource string `json:"resource"`
}

// EndpointsController configures endpoints-controller.
type EndpointsController struct {
	ControllerSettings `json:",inline"`
	// Services reconciled at the same time, and as many workers that map pods to Services.
	// Default: 5. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// How long pod changes are batched before the Service is reconciled: fewer writes,
	// later endpoints. Default: 0s, no batching. Range: 0s to 1h. A change restarts the
	// controller.
	EndpointUpdatesBatchPeriod *metav1.Duration `json:"endpointUpdatesBatchPeriod,omitempty"`
	ResyncSettings             `json:",inline"`
}

// EndpointSliceMirroringController configures endpointslice-mirroring-controller.
type EndpointSliceMirroringController struct {
	ControllerSettings `json:",inline"`
	// Endpoints mirrored at the same time. Default: 5. Range: 1 to 50. A change
	// restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Maximum number of addresses mirrored of a subset of Endpoints. Default: 1000. Range:
	// 1 to 1000. A change restarts the controller.
	MaxEndpointsPerSubset *int32 `json:"maxEndpointsPerSubset,omitempty"`
	// How long changes of EndpointSlices are batched before the Endpoints are mirrored
	// again. Default: 0s, no batching. Range: 0s to 1h. A change restarts the controller.
	EndpointUpdatesBatchPeriod *metav1.Duration `json:"endpointUpdatesBatchPeriod,omitempty"`
	ResyncSettings             `json:",inline"`
}
