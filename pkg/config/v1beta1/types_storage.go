package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PersistentVolumeBinderController configures persistentvolume-binder-controller.
type PersistentVolumeBinderController struct {
	ControllerSettings `json:",inline"`
	// Period between two looks at all volumes and claims. Default: 15s. Range: 1s to
	// 24h. A change restarts the controller.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// Whether volumes are provisioned for claims whose class asks for it.
	// Default: true. A change restarts the controller.
	DynamicProvisioning *bool `json:"dynamicProvisioning,omitempty"`
	// Whether volumes of the kind hostPath are provisioned: for tests on a single
	// node, nothing else. Default: false. Needs dynamicProvisioning. A change
	// restarts the controller.
	HostPathProvisioning *bool `json:"hostPathProvisioning,omitempty"`
	// How volumes with the reclaim policy Recycle are emptied by a pod.
	Recycler Recycler `json:"recycler"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// Recycler says how volumes are emptied.
type Recycler struct {
	// Volumes of the kind NFS.
	NFS RecyclerPod `json:"nfs"`
	// Volumes of the kind hostPath.
	HostPath RecyclerPod `json:"hostPath"`
}

// RecyclerPod is the pod that empties a volume and the time it has for it.
type RecyclerPod struct {
	// YAML or JSON file with a pod whose first volume is replaced by the one to be
	// emptied. Default: empty, which means a built-in pod. A change of the setting
	// or of the file restarts the controller.
	PodTemplateFile string `json:"podTemplateFile,omitempty"`
	// Time the pod has at least. Default: 5m for NFS, 1m for hostPath. Range: 1s to
	// 24h. A change restarts the controller.
	MinimumTimeout *metav1.Duration `json:"minimumTimeout,omitempty"`
	// Time the pod has in addition for each gibibyte of the volume. Default: 30s.
	// Range: 0s (none) to 24h. A change restarts the controller.
	TimeoutIncrement *metav1.Duration `json:"timeoutIncrement,omitempty"`
}

// PersistentVolumeAttachDetachController configures
// persistentvolume-attach-detach-controller.
type PersistentVolumeAttachDetachController struct {
	ControllerSettings `json:",inline"`
	// Period between two checks that volumes are still attached where they are
	// thought to be. Default: 1m. Range: 0s (never), or 1s to 24h. A change restarts
	// the controller.
	ReconcilerSyncPeriod *metav1.Duration `json:"reconcilerSyncPeriod,omitempty"`
	// Whether a volume is detached from an unhealthy node that has not released it
	// for six minutes. Default: true; with false only the taint
	// node.kubernetes.io/out-of-service does that. A change restarts the controller.
	ForceDetachOnTimeout *bool `json:"forceDetachOnTimeout,omitempty"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// EphemeralVolumeController configures ephemeral-volume-controller.
type EphemeralVolumeController struct {
	ControllerSettings `json:",inline"`
	// Pods reconciled at the same time. Default: 5. Range: 1 to 1000. A change
	// restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}
