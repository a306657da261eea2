package conversion

// nodeRows are the settings of the controllers of nodes and of addresses.
func nodeRows() []Row {
	const ipam, lifecycle = "controllers.node-ipam-controller.", "controllers.node-lifecycle-controller."
	const maskHow = "0 means the default; with a single range, node-cidr-mask-size is the size for the family of that range"
	return []Row{
		{Flag: "concurrent-service-syncs", Upstream: "ServiceController.ConcurrentServiceSyncs", Field: "controllers.service-lb-controller.concurrentSyncs",
			Refused: "upstream has no such controller in 1.36"},
		{Flag: "service-cluster-ip-range", Field: "networking.serviceCIDRs", How: "the list is split at commas"},
		{Upstream: "NodeIPAMController.ServiceCIDR", Field: "networking.serviceCIDRs", How: "the first range"},
		{Upstream: "NodeIPAMController.SecondaryServiceCIDR", Field: "networking.serviceCIDRs", How: "the second range"},
		{Flag: "node-cidr-mask-size", Upstream: "NodeIPAMController.NodeCIDRMaskSize", Field: ipam + "nodeCIDRMaskSizeIPv4, " + ipam + "nodeCIDRMaskSizeIPv6", How: maskHow},
		{Flag: "node-cidr-mask-size-ipv4", Upstream: "NodeIPAMController.NodeCIDRMaskSizeIPv4", Field: ipam + "nodeCIDRMaskSizeIPv4", How: maskHow},
		{Flag: "node-cidr-mask-size-ipv6", Upstream: "NodeIPAMController.NodeCIDRMaskSizeIPv6", Field: ipam + "nodeCIDRMaskSizeIPv6", How: maskHow},
		{Flag: "node-monitor-grace-period", Upstream: "NodeLifecycleController.NodeMonitorGracePeriod", Field: lifecycle + "nodeMonitorGracePeriod",
			Refused: "upstream treats healthy nodes as lost"},
		{Flag: "node-startup-grace-period", Upstream: "NodeLifecycleController.NodeStartupGracePeriod", Field: lifecycle + "nodeStartupGracePeriod",
			Refused: "upstream treats new nodes as lost"},
		{Flag: "node-eviction-rate", Upstream: "NodeLifecycleController.NodeEvictionRate", Field: lifecycle + "nodeEvictionRate",
			Refused: "upstream taints nodes at that rate"},
		{Flag: "secondary-node-eviction-rate", Upstream: "NodeLifecycleController.SecondaryNodeEvictionRate", Field: lifecycle + "secondaryNodeEvictionRate",
			Refused: "upstream taints nodes at that rate"},
		{Flag: "large-cluster-size-threshold", Upstream: "NodeLifecycleController.LargeClusterSizeThreshold", Field: lifecycle + "largeClusterSizeThreshold",
			NegativeIsZero: true, Refused: "upstream compares with that number"},
		{Flag: "unhealthy-zone-threshold", Upstream: "NodeLifecycleController.UnhealthyZoneThreshold", Field: lifecycle + "unhealthyZoneThreshold",
			Refused: "upstream compares with that fraction"},
	}
}

// storageRows are the settings of the controllers of volumes.
func storageRows() []Row {
	const (
		attach   = "controllers.persistentvolume-attach-detach-controller."
		binder   = "controllers.persistentvolume-binder-controller."
		recycler = binder + "recycler."
		up       = "PersistentVolumeBinderController."
		volumes  = up + "VolumeConfiguration."
		pod      = volumes + "PersistentVolumeRecyclerConfiguration."
		refused  = "upstream gives up on the recycler pod immediately"
	)
	return []Row{
		{Flag: "attach-detach-reconcile-sync-period", Upstream: "AttachDetachController.ReconcilerSyncLoopPeriod", Field: attach + "reconcilerSyncPeriod",
			How: "0s while disable-attach-detach-reconcile-sync is set", Refused: "upstream rejects less than 1s and accepts any longer period", Rejects: RejectsLow},
		{Flag: "disable-attach-detach-reconcile-sync", Upstream: "AttachDetachController.DisableAttachDetachReconcilerSync", Field: attach + "reconcilerSyncPeriod",
			How: "true becomes 0s, never"},
		{Flag: "disable-force-detach-on-timeout", Upstream: "AttachDetachController.disableForceDetachOnTimeout", Field: attach + "forceDetachOnTimeout", Opposite: true},

		{Flag: "pvclaimbinder-sync-period", Upstream: up + "PVClaimBinderSyncPeriod", Field: binder + "syncPeriod", Refused: "upstream checks all volumes without a pause"},
		{Flag: "enable-dynamic-provisioning", Upstream: volumes + "EnableDynamicProvisioning", Field: binder + "dynamicProvisioning"},
		{Flag: "enable-hostpath-provisioner", Upstream: volumes + "EnableHostPathProvisioning", Field: binder + "hostPathProvisioning"},
		{Flag: "flex-volume-plugin-dir", Upstream: volumes + "FlexVolumePluginDir", Field: "volumes.flexVolumePluginDirectory"},
		{Flag: "pv-recycler-pod-template-filepath-nfs", Upstream: pod + "PodTemplateFilePathNFS", Field: recycler + "nfs.podTemplateFile"},
		{Flag: "pv-recycler-minimum-timeout-nfs", Upstream: pod + "MinimumTimeoutNFS", Field: recycler + "nfs.minimumTimeout", Refused: refused},
		{Flag: "pv-recycler-increment-timeout-nfs", Upstream: pod + "IncrementTimeoutNFS", Field: recycler + "nfs.timeoutIncrement", Refused: refused},
		{Flag: "pv-recycler-pod-template-filepath-hostpath", Upstream: pod + "PodTemplateFilePathHostPath", Field: recycler + "hostPath.podTemplateFile"},
		{Flag: "pv-recycler-minimum-timeout-hostpath", Upstream: pod + "MinimumTimeoutHostPath", Field: recycler + "hostPath.minimumTimeout", Refused: refused},
		{Flag: "pv-recycler-timeout-increment-hostpath", Upstream: pod + "IncrementTimeoutHostPath", Field: recycler + "hostPath.timeoutIncrement", Refused: refused},

		{Flag: "concurrent-ephemeralvolume-syncs", Upstream: "EphemeralVolumeController.ConcurrentEphemeralVolumeSyncs", Field: workersOf("ephemeral-volume-controller"),
			Refused: "upstream rejects 0 too", Rejects: RejectsLow},
	}
}

// controllerRows are the settings of the other controllers.
func controllerRows() []Row {
	const (
		signing = "controllers.certificatesigningrequest-signing-controller."
		slices  = "controllers.endpointslice-controller."
		mirror  = "controllers.endpointslice-mirroring-controller."
		scaler  = "controllers.horizontal-pod-autoscaler-controller."
		soon    = "upstream accepts any period; a negative one means 0s"
		same    = "upstream rejects it too"
		zero    = "upstream rejects 0 too"
	)
	return []Row{
		{Flag: "cluster-signing-cert-file", Upstream: "CSRSigningController.ClusterSigningCertFile", Field: signing + "allSigners.certFile"},
		{Flag: "cluster-signing-key-file", Upstream: "CSRSigningController.ClusterSigningKeyFile", Field: signing + "allSigners.privateKeyFile"},
		{Flag: "cluster-signing-kubelet-serving-cert-file", Upstream: "CSRSigningController.KubeletServingSignerConfiguration.CertFile", Field: signing + "kubeletServing.certFile"},
		{Flag: "cluster-signing-kubelet-serving-key-file", Upstream: "CSRSigningController.KubeletServingSignerConfiguration.KeyFile", Field: signing + "kubeletServing.privateKeyFile"},
		{Flag: "cluster-signing-kubelet-client-cert-file", Upstream: "CSRSigningController.KubeletClientSignerConfiguration.CertFile", Field: signing + "kubeletClient.certFile"},
		{Flag: "cluster-signing-kubelet-client-key-file", Upstream: "CSRSigningController.KubeletClientSignerConfiguration.KeyFile", Field: signing + "kubeletClient.privateKeyFile"},
		{Flag: "cluster-signing-kube-apiserver-client-cert-file", Upstream: "CSRSigningController.KubeAPIServerClientSignerConfiguration.CertFile", Field: signing + "kubeAPIServerClient.certFile"},
		{Flag: "cluster-signing-kube-apiserver-client-key-file", Upstream: "CSRSigningController.KubeAPIServerClientSignerConfiguration.KeyFile", Field: signing + "kubeAPIServerClient.privateKeyFile"},
		{Flag: "cluster-signing-legacy-unknown-cert-file", Upstream: "CSRSigningController.LegacyUnknownSignerConfiguration.CertFile", Field: signing + "legacyUnknown.certFile"},
		{Flag: "cluster-signing-legacy-unknown-key-file", Upstream: "CSRSigningController.LegacyUnknownSignerConfiguration.KeyFile", Field: signing + "legacyUnknown.privateKeyFile"},
		{Flag: "cluster-signing-duration", Upstream: "CSRSigningController.ClusterSigningDuration", Field: signing + "certificateDuration",
			Refused: "upstream signs certificates with that duration"},

		{Flag: "concurrent-deployment-syncs", Upstream: "DeploymentController.ConcurrentDeploymentSyncs", Field: workersOf("deployment-controller"), Refused: noWorkers},
		{Flag: "concurrent-device-taint-eviction-syncs", Upstream: "DeviceTaintEvictionController.ConcurrentSyncs", Field: workersOf("device-taint-eviction-controller"), Refused: zero, Rejects: RejectsLow},
		{Flag: "concurrent-resourceclaim-syncs", Upstream: "ResourceClaimController.ConcurrentSyncs", Field: workersOf("resourceclaim-controller"), Refused: zero, Rejects: RejectsLow},
		{Flag: "concurrent-statefulset-syncs", Upstream: "StatefulSetController.ConcurrentStatefulSetSyncs", Field: workersOf("statefulset-controller"), Refused: zero, Rejects: RejectsLow},
		{Flag: "concurrent-daemonset-syncs", Upstream: "DaemonSetController.ConcurrentDaemonSetSyncs", Field: workersOf("daemonset-controller"), Refused: zero, Rejects: RejectsLow},

		{Flag: "concurrent-endpoint-syncs", Upstream: "EndpointController.ConcurrentEndpointSyncs", Field: workersOf("endpoints-controller"), Refused: noWorkers},
		{Flag: "endpoint-updates-batch-period", Upstream: "EndpointController.EndpointUpdatesBatchPeriod",
			Field: "controllers.endpoints-controller.endpointUpdatesBatchPeriod", NegativeIsZero: true, Refused: soon},
		{Flag: "concurrent-service-endpoint-syncs", Upstream: "EndpointSliceController.ConcurrentServiceEndpointSyncs", Field: workersOf("endpointslice-controller"), Refused: same, Rejects: RejectsLow | RejectsHigh},
		{Flag: "endpointslice-updates-batch-period", Upstream: "EndpointSliceController.EndpointUpdatesBatchPeriod", Field: slices + "endpointUpdatesBatchPeriod",
			NegativeIsZero: true, Refused: soon},
		{Flag: "max-endpoints-per-slice", Upstream: "EndpointSliceController.MaxEndpointsPerSlice", Field: slices + "maxEndpointsPerSlice", Refused: same, Rejects: RejectsLow | RejectsHigh},
		{Flag: "mirroring-concurrent-service-endpoint-syncs", Upstream: "EndpointSliceMirroringController.MirroringConcurrentServiceEndpointSyncs",
			Field: workersOf("endpointslice-mirroring-controller"), Refused: same, Rejects: RejectsLow | RejectsHigh},
		{Flag: "mirroring-endpointslice-updates-batch-period", Upstream: "EndpointSliceMirroringController.MirroringEndpointUpdatesBatchPeriod",
			Field: mirror + "endpointUpdatesBatchPeriod", NegativeIsZero: true, Refused: soon},
		{Flag: "mirroring-max-endpoints-per-subset", Upstream: "EndpointSliceMirroringController.MirroringMaxEndpointsPerSubset", Field: mirror + "maxEndpointsPerSubset", Refused: same, Rejects: RejectsLow | RejectsHigh},

		{Flag: "concurrent-gc-syncs", Upstream: "GarbageCollectorController.ConcurrentGCSyncs", Field: workersOf("garbage-collector-controller"), Refused: noWorkers},
		{Flag: "enable-garbage-collector", Upstream: "GarbageCollectorController.EnableGarbageCollector", Field: "controllers.garbage-collector-controller.enabled",
			How: "false becomes enabled: false; true leaves the decision to controllers"},

		{Flag: "concurrent-horizontal-pod-autoscaler-syncs", Upstream: "HPAController.ConcurrentHorizontalPodAutoscalerSyncs", Field: workersOf("horizontal-pod-autoscaler-controller"), Refused: zero, Rejects: RejectsLow},
		{Flag: "horizontal-pod-autoscaler-sync-period", Upstream: "HPAController.HorizontalPodAutoscalerSyncPeriod", Field: scaler + "syncPeriod",
			Refused: "upstream waits that long between two evaluations"},
		{Flag: "horizontal-pod-autoscaler-downscale-stabilization", Upstream: "HPAController.HorizontalPodAutoscalerDownscaleStabilizationWindow", Field: scaler + "downscaleStabilization",
			Refused: "upstream remembers for that long"},
		{Flag: "horizontal-pod-autoscaler-tolerance", Upstream: "HPAController.HorizontalPodAutoscalerTolerance", Field: scaler + "tolerance", Refused: "upstream compares with it"},
		{Flag: "horizontal-pod-autoscaler-cpu-initialization-period", Upstream: "HPAController.HorizontalPodAutoscalerCPUInitializationPeriod", Field: scaler + "cpuInitializationPeriod",
			Refused: "upstream ignores samples for that long"},
		{Flag: "horizontal-pod-autoscaler-initial-readiness-delay", Upstream: "HPAController.HorizontalPodAutoscalerInitialReadinessDelay", Field: scaler + "initialReadinessDelay",
			Refused: "upstream ignores pods for that long"},

		{Flag: "concurrent-job-syncs", Upstream: "JobController.ConcurrentJobSyncs", Field: workersOf("job-controller"), Refused: zero, Rejects: RejectsLow},
		{Flag: "concurrent-cron-job-syncs", Upstream: "CronJobController.ConcurrentCronJobSyncs", Field: workersOf("cronjob-controller"), Refused: zero, Rejects: RejectsLow},
		{Flag: "legacy-service-account-token-clean-up-period", Upstream: "LegacySATokenCleaner.CleanUpPeriod",
			Field: "controllers.legacy-serviceaccount-token-cleaner-controller.cleanUpPeriod", Refused: "upstream deletes tokens that were used on the same day"},
		{Flag: "concurrent-namespace-syncs", Upstream: "NamespaceController.ConcurrentNamespaceSyncs", Field: workersOf("namespace-controller"), Refused: noWorkers},
		{Flag: "namespace-sync-period", Upstream: "NamespaceController.NamespaceSyncPeriod", Field: "controllers.namespace-controller.resyncPeriod",
			NegativeIsZero: true, Refused: "upstream resyncs that often"},
		{Flag: "terminated-pod-gc-threshold", Upstream: "PodGCController.TerminatedPodGCThreshold", Field: "controllers.pod-garbage-collector-controller.terminatedPodThreshold",
			NegativeIsZero: true, Refused: "upstream keeps that many pods"},
		{Flag: "concurrent-replicaset-syncs", Upstream: "ReplicaSetController.ConcurrentRSSyncs", Field: workersOf("replicaset-controller"), Refused: noWorkers},
		{Flag: "concurrent-rc-syncs", Upstream: "ReplicationController.ConcurrentRCSyncs", Field: workersOf("replicationcontroller-controller"), Refused: noWorkers},
		{Flag: "concurrent-resource-quota-syncs", Upstream: "ResourceQuotaController.ConcurrentResourceQuotaSyncs", Field: workersOf("resourcequota-controller"), Refused: noWorkers},
		{Flag: "resource-quota-sync-period", Upstream: "ResourceQuotaController.ResourceQuotaSyncPeriod", Field: "controllers.resourcequota-controller.syncPeriod",
			NegativeIsZero: true, Refused: "upstream recalculates that often"},

		{Flag: "concurrent-serviceaccount-token-syncs", Upstream: "SAController.ConcurrentSATokenSyncs", Field: workersOf("serviceaccount-token-controller"), Refused: noWorkers},
		{Flag: "service-account-private-key-file", Upstream: "SAController.ServiceAccountKeyFile", Field: "serviceAccounts.privateKeyFile"},
		{Flag: "root-ca-file", Upstream: "SAController.RootCAFile", Field: "serviceAccounts.rootCAFile"},
		{Flag: "concurrent-ttl-after-finished-syncs", Upstream: "TTLAfterFinishedController.ConcurrentTTLSyncs", Field: workersOf("ttl-after-finished-controller"), Refused: noWorkers},
		{Flag: "concurrent-validating-admission-policy-status-syncs", Upstream: "ValidatingAdmissionPolicyStatusController.ConcurrentPolicySyncs",
			Field: workersOf("validatingadmissionpolicy-status-controller"), Refused: noWorkers},
	}
}

func workersOf(controller string) string { return "controllers." + controller + ".concurrentSyncs" }
