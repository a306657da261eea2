package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PersistentVolumeBinderController configures persistentvolume-binder-controller.
type PersistentVolumeBinderController struct {
	ControllerSettings `json:",inline"`
	// Period between two checks of all volumes and claims. Default: 15s. Range: 1s to 24h.
	// A change restarts the controller.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// Whether volumes are provisioned for claims whose class requests it. Default: true. A
	// change restarts the controller.
	DynamicProvisioning *bool `json:"dynamicProvisioning,omitempty"`
	// Whether hostPath volumes are provisioned; only for tests on a single node. Default:
	// false. Needs dynamicProvisioning. A change restarts the controller.
	HostPathProvisioning *bool `json:"hostPathProvisioning,omitempty"`
	// How volumes with the reclaim policy Recycle are emptied by a pod.
	Recycler       Recycler `json:"recycler"`
	ResyncSettings `json:",inline"`
}

// Recycler configures how volumes are emptied.
type Recycler struct {
	// NFS volumes.
	NFS RecyclerPod `json:"nfs"`
	// hostPath volumes.
	HostPath RecyclerPod `json:"hostPath"`
}

// RecyclerPod is the pod that empties a volume and the time it has for it.
type RecyclerPod struct {
	// YAML or JSON file with a pod whose first volume is replaced by the volume to be
	// emptied. Default: empty, which means a built-in pod. A change of the setting or of
	// the file restarts the controller.
	PodTemplateFile string `json:"podTemplateFile,omitempty"`
	// Minimum time for the pod. Default: 5m for NFS, 1m for hostPath. Range: 1s to 24h. A
	// change restarts the controller.
	MinimumTimeout *metav1.Duration `json:"minimumTimeout,omitempty"`
	// Additional time for the pod for each gibibyte of the volume. Default: 30s. Range: 0s
	// (none) to 24h. A change restarts the controller.
	TimeoutIncrement *metav1.Duration `json:"timeoutIncrement,omitempty"`
}

// PersistentVolumeAttachDetachController configures
// persistentvolume-attach-detach-controller.
type PersistentVolumeAttachDetachController struct {
	ControllerSettings `json:",inline"`
	// Period between two checks that volumes are still attached where the controller
	// recorded them. Default: 1m. Range: 0s (never), or 1s to 24h. A change restarts the
	// controller.
	ReconcilerSyncPeriod *metav1.Duration `json:"reconcilerSyncPeriod,omitempty"`
	// Whether a volume is detached from an unhealthy node that has not released it
	// for six minutes. Default: true; with false only the taint
	// node.kubernetes.io/out-of-service does that. A change restarts the controller.
	ForceDetachOnTimeout *bool `json:"forceDetachOnTimeout,omitempty"`
	ResyncSettings       `json:",inline"`
}

// EphemeralVolumeController configures ephemeral-volume-controller.
type EphemeralVolumeController struct {
	ControllerSettings `json:",inline"`
	// Pods reconciled at the same time. Default: 5. Range: 1 to 1000. A change
	// restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	ResyncSettings  `json:",inline"`
}
