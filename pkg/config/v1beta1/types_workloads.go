package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// StatefulSetController configures statefulset-controller.
type StatefulSetController struct {
	ControllerSettings `json:",inline"`
	// StatefulSets reconciled at the same time. Default: 5. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// DaemonSetController configures daemonset-controller.
type DaemonSetController struct {
	ControllerSettings `json:",inline"`
	// DaemonSets reconciled, and as many nodes looked at, at the same time. Default: 2. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// JobController configures job-controller.
type JobController struct {
	ControllerSettings `json:",inline"`
	// Jobs reconciled, and as many orphaned pods looked at, at the same time. Default: 5. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// CronJobController configures cronjob-controller.
type CronJobController struct {
	ControllerSettings `json:",inline"`
	// CronJobs reconciled at the same time. Default: 5. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// TTLAfterFinishedController configures ttl-after-finished-controller.
type TTLAfterFinishedController struct {
	ControllerSettings `json:",inline"`
	// Jobs looked at at the same time. Default: 5. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// DisruptionController configures disruption-controller, which has one worker per queue.
type DisruptionController struct {
	ControllerSettings `json:",inline"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
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
	// How long a higher recommendation is remembered before a workload is scaled
	// down, where the autoscaler does not say itself. Default: 5m. Range: 0s (not at
	// all) to 1h. A change restarts the controller.
	DownscaleStabilization *metav1.Duration `json:"downscaleStabilization,omitempty"`
	// Deviation of the metric from its target, as a fraction, that is not acted on,
	// where the autoscaler does not say itself. Default: 0.1. Range: 0 to 1. A change
	// restarts the controller.
	Tolerance *float64 `json:"tolerance,omitempty"`
	// How long after its start a pod's processor samples may be left out. Default:
	// 5m. Range: 0s (not at all) to 24h. A change restarts the controller.
	CPUInitializationPeriod *metav1.Duration `json:"cpuInitializationPeriod,omitempty"`
	// How long after its start a pod's changes of readiness count as its first.
	// Default: 30s. Range: 0s (not at all) to 24h. A change restarts the controller.
	InitialReadinessDelay *metav1.Duration `json:"initialReadinessDelay,omitempty"`
}

// PodGarbageCollectorController configures pod-garbage-collector-controller,
// which has one worker.
type PodGarbageCollectorController struct {
	ControllerSettings `json:",inline"`
	// Number of ended pods that are kept in the whole cluster. Default: 12500. Range:
	// 0 (keep all) to 1000000. A change restarts the controller.
	TerminatedPodThreshold *int32 `json:"terminatedPodThreshold,omitempty"`
}

// PodGroupProtectionController configures podgroup-protection-controller,
// which has one worker and runs only with the feature gate GenericWorkload.
type PodGroupProtectionController struct {
	ControllerSettings `json:",inline"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// GarbageCollectorController configures garbage-collector-controller.
type GarbageCollectorController struct {
	ControllerSettings `json:",inline"`
	// Objects that may be deleted looked at at the same time, and as many objects whose
	// dependents are orphaned. Default: 20. Range: 1 to 1000. A change restarts the
	// controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Resources whose objects are neither deleted nor count as owners. Default: events
	// of the core group and of events.k8s.io. A change restarts the controller.
	IgnoredResources []GroupResource `json:"ignoredResources,omitzero"`
}

// GroupResource names a resource of any version.
type GroupResource struct {
	// Name of the API group. Default: empty, the core group.
	Group string `json:"group,omitempty"`
	// Plural name of the resource in lower case.
	Resource string `json:"resource"`
}

// EndpointsController configures endpoints-controller.
type EndpointsController struct {
	ControllerSettings `json:",inline"`
	// Services reconciled, and as many workers that map pods to
	// Services, at the same time. Default: 5. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// How long pod changes are gathered before the Service is reconciled: fewer
	// writes, later endpoints. Default: 0s, at once. Range: 0s to 1h. A change
	// restarts the controller.
	EndpointUpdatesBatchPeriod *metav1.Duration `json:"endpointUpdatesBatchPeriod,omitempty"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// EndpointSliceMirroringController configures endpointslice-mirroring-controller.
type EndpointSliceMirroringController struct {
	ControllerSettings `json:",inline"`
	// Endpoints mirrored at the same time. Default: 5. Range: 1 to 50. A change
	// restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Addresses of a subset of Endpoints that are mirrored at most. Default: 1000.
	// Range: 1 to 1000. A change restarts the controller.
	MaxEndpointsPerSubset *int32 `json:"maxEndpointsPerSubset,omitempty"`
	// How long changes of EndpointSlices are gathered before the Endpoints are
	// mirrored again. Default: 0s, at once. Range: 0s to 1h. A change restarts the
	// controller.
	EndpointUpdatesBatchPeriod *metav1.Duration `json:"endpointUpdatesBatchPeriod,omitempty"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}
