package conversion

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudv1alpha1 "k8s.io/cloud-provider/config/v1alpha1"
	componentbase "k8s.io/component-base/config/v1alpha1"
	generic "k8s.io/controller-manager/config/v1alpha1"
	"k8s.io/kube-controller-manager/config/v1alpha1"
	"k8s.io/utils/ptr"
)

// Group, APIVersion and Kind identify a file of upstream. Group is also the key under which
// /configz shows it.
const (
	Group      = v1alpha1.GroupName
	APIVersion = Group + "/v1alpha1"
	Kind       = "KubeControllerManagerConfiguration"
)

// NewDefault returns what /configz of a kube-controller-manager 1.36 without flags
// shows.
func NewDefault() *v1alpha1.KubeControllerManagerConfiguration {
	cfg := &v1alpha1.KubeControllerManagerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind},
		Generic:  genericDefaults(),
		KubeCloudShared: cloudv1alpha1.KubeCloudSharedConfiguration{
			RouteReconciliationPeriod: seconds(10),
			NodeMonitorPeriod:         seconds(5),
			ClusterName:               "kubernetes",
			CIDRAllocatorType:         "RangeAllocator",
			ConfigureCloudRoutes:      ptr.To(true),
		},
	}
	setWorkloadDefaults(cfg)
	setNetworkDefaults(cfg)
	setNodeDefaults(cfg)
	setStorageDefaults(cfg)
	setAccountDefaults(cfg)
	return cfg
}

func genericDefaults() generic.GenericControllerManagerConfiguration {
	return generic.GenericControllerManagerConfiguration{
		Address:         "0.0.0.0",
		MinResyncPeriod: metav1.Duration{Duration: 12 * time.Hour},
		ClientConnection: componentbase.ClientConnectionConfiguration{
			ContentType: "application/vnd.kubernetes.protobuf", QPS: DefaultQPS, Burst: DefaultBurst,
		},
		LeaderElection: componentbase.LeaderElectionConfiguration{
			LeaderElect: ptr.To(true), LeaseDuration: seconds(15), RenewDeadline: seconds(10), RetryPeriod: seconds(2),
			ResourceLock: leasesLock, ResourceName: "kube-controller-manager", ResourceNamespace: "kube-system",
		},
		Controllers: []string{every},
		Debugging: componentbase.DebuggingConfiguration{
			EnableProfiling:           ptr.To(true),
			EnableContentionProfiling: ptr.To(false),
		},
	}
}

func setWorkloadDefaults(cfg *v1alpha1.KubeControllerManagerConfiguration) {
	cfg.DaemonSetController.ConcurrentDaemonSetSyncs = 2
	cfg.DeploymentController.ConcurrentDeploymentSyncs = 5
	cfg.StatefulSetController.ConcurrentStatefulSetSyncs = 5
	cfg.JobController.ConcurrentJobSyncs = 5
	cfg.CronJobController.ConcurrentCronJobSyncs = 5
	cfg.ReplicaSetController.ConcurrentRSSyncs = 5
	cfg.ReplicationController.ConcurrentRCSyncs = 5
	cfg.TTLAfterFinishedController.ConcurrentTTLSyncs = 5
	cfg.PodGCController.TerminatedPodGCThreshold = 12500
	cfg.ResourceClaimController.ConcurrentSyncs = 50
	cfg.DeviceTaintEvictionController.ConcurrentSyncs = 8
	cfg.HPAController = v1alpha1.HPAControllerConfiguration{
		ConcurrentHorizontalPodAutoscalerSyncs:              5,
		HorizontalPodAutoscalerSyncPeriod:                   seconds(15),
		HorizontalPodAutoscalerDownscaleStabilizationWindow: seconds(5 * 60),
		HorizontalPodAutoscalerTolerance:                    0.1,
		HorizontalPodAutoscalerCPUInitializationPeriod:      seconds(5 * 60),
		HorizontalPodAutoscalerInitialReadinessDelay:        seconds(30),
	}
}

func setNetworkDefaults(cfg *v1alpha1.KubeControllerManagerConfiguration) {
	cfg.EndpointController.ConcurrentEndpointSyncs = 5
	cfg.EndpointSliceController.ConcurrentServiceEndpointSyncs = 5
	cfg.EndpointSliceController.MaxEndpointsPerSlice = 100
	cfg.EndpointSliceMirroringController.MirroringConcurrentServiceEndpointSyncs = 5
	cfg.EndpointSliceMirroringController.MirroringMaxEndpointsPerSubset = 1000
	cfg.ServiceController.ConcurrentServiceSyncs = 1
}

func setNodeDefaults(cfg *v1alpha1.KubeControllerManagerConfiguration) {
	cfg.NodeLifecycleController = v1alpha1.NodeLifecycleControllerConfiguration{
		NodeEvictionRate:          0.1,
		SecondaryNodeEvictionRate: 0.01,
		NodeStartupGracePeriod:    seconds(60),
		NodeMonitorGracePeriod:    seconds(50),
		LargeClusterSizeThreshold: 50,
		UnhealthyZoneThreshold:    0.55,
	}
}

func setStorageDefaults(cfg *v1alpha1.KubeControllerManagerConfiguration) {
	cfg.AttachDetachController.ReconcilerSyncLoopPeriod = seconds(60)
	cfg.EphemeralVolumeController.ConcurrentEphemeralVolumeSyncs = 5
	cfg.PersistentVolumeBinderController.PVClaimBinderSyncPeriod = seconds(15)
	cfg.PersistentVolumeBinderController.VolumeConfiguration = v1alpha1.VolumeConfiguration{
		EnableDynamicProvisioning:  ptr.To(true),
		EnableHostPathProvisioning: ptr.To(false),
		FlexVolumePluginDir:        "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
		PersistentVolumeRecyclerConfiguration: v1alpha1.PersistentVolumeRecyclerConfiguration{
			MaximumRetry:      3,
			MinimumTimeoutNFS: 300, IncrementTimeoutNFS: 30,
			MinimumTimeoutHostPath: 60, IncrementTimeoutHostPath: 30,
		},
	}
}

func setAccountDefaults(cfg *v1alpha1.KubeControllerManagerConfiguration) {
	cfg.CSRSigningController.ClusterSigningDuration = metav1.Duration{Duration: 365 * 24 * time.Hour}
	cfg.LegacySATokenCleaner.CleanUpPeriod = metav1.Duration{Duration: 365 * 24 * time.Hour}
	cfg.GarbageCollectorController = v1alpha1.GarbageCollectorControllerConfiguration{
		EnableGarbageCollector: ptr.To(true),
		ConcurrentGCSyncs:      20,
		GCIgnoredResources:     []v1alpha1.GroupResource{{Resource: "events"}, {Group: "events.k8s.io", Resource: "events"}},
	}
	cfg.NamespaceController.ConcurrentNamespaceSyncs = 10
	cfg.NamespaceController.NamespaceSyncPeriod = seconds(5 * 60)
	cfg.ResourceQuotaController.ConcurrentResourceQuotaSyncs = 5
	cfg.ResourceQuotaController.ResourceQuotaSyncPeriod = seconds(5 * 60)
	cfg.SAController.ConcurrentSATokenSyncs = 5
	cfg.ValidatingAdmissionPolicyStatusController.ConcurrentPolicySyncs = 5
}

func seconds(n int) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(n) * time.Second}
}
