package gates

// Purpose says in a sentence what a gate of this build is for; it is empty for a gate that only
// other components of a cluster read.
func Purpose(gate string) string { return purposes()[gate] }

// purposes has every gate that something in this build reads, see docs/specs.
func purposes() map[string]string {
	const stale = "waits with an object until its caches have its own last writes, instead of acting on an old state."
	return map[string]string{
		AllAlpha:                                    "Stands for every alpha gate that is not set.",
		AllBeta:                                     "Stands for every beta gate that is not set.",
		ClusterTrustBundle:                          "Publishes the CA of serving certificates of API servers as a ClusterTrustBundle.",
		CloudWatchBasedRoutes:                       "Reconciles the routes of a cloud when nodes change, instead of periodically.",
		CoordinatedLeaderElection:                   "Lets the API server choose the leader among candidates, by their versions.",
		DRADeviceTaintRules:                         "Evicts pods because of DeviceTaintRules too, which taint devices from outside of their driver.",
		DRADeviceTaints:                             "Evicts pods that use a device with a taint they do not tolerate.",
		DRAResourcePoolStatus:                       "Answers ResourcePoolStatusRequests with the devices of a pool and their use.",
		DRAAdminAccess:                              "Lets ResourceClaims get access to devices that are in use, for monitoring.",
		DRAExtendedResource:                         "Lets pods request devices as extended resources; quotas count them.",
		DRAPrioritizedList:                          "Lets a ResourceClaim list alternatives in the order of preference.",
		DRAWorkloadResourceClaims:                   "Creates and reserves ResourceClaims for PodGroups.",
		DynamicResourceAllocation:                   "Allocates devices to pods by ResourceClaims.",
		DeploymentReplicaSetTerminatingReplicas:     "Counts pods that are terminating in status.terminatingReplicas of Deployments and ReplicaSets.",
		GenericWorkload:                             "Schedules pods in groups by Workloads and PodGroups.",
		HPAConfigurableTolerance:                    "Lets a HorizontalPodAutoscaler set its own tolerance for each direction.",
		HPAScaleToZero:                              "Lets a HorizontalPodAutoscaler scale to zero, if a metric is not of the pods.",
		InPlacePodVerticalScaling:                   "Changes the resources of running pods; quotas count what is allocated.",
		JobManagedBy:                                "Leaves Jobs to another controller that their spec.managedBy names.",
		JobPodReplacementPolicy:                     "Lets a Job wait until a pod has terminated before it is replaced.",
		LoggingAlphaOptions:                         "Permits alpha settings in logging.options.",
		LoggingBetaOptions:                          "Permits beta settings of logging, such as the format json.",
		MaxUnavailableStatefulSet:                   "Lets a rolling update of a StatefulSet replace several pods at a time.",
		MultiCIDRServiceAllocator:                   "Keeps the ranges of services in ServiceCIDRs, whose deletion waits for their addresses.",
		MutableSchedulingDirectivesForSuspendedJobs: "Clears the start time of Jobs that are suspended, so that their scheduling can be changed.",
		OrderedNamespaceDeletion:                    "Deletes the pods of a namespace before everything else in it.",
		PersistentVolumeClaimUnusedSinceTime:        "Records since when no pod uses a PersistentVolumeClaim.",
		PodCertificateRequest:                       "Issues certificates to pods; old requests are deleted.",
		PodDeletionCost:                             "Deletes pods with a low annotation controller.kubernetes.io/pod-deletion-cost first when a ReplicaSet shrinks.",
		PodLevelResources:                           "Lets a pod have resources as a whole; autoscaling and quotas use them.",
		PreferSameTrafficDistribution:               "Adds PreferSameZone and PreferSameNode to the traffic distribution of Services.",
		RecoverVolumeExpansionFailure:               "Lets a failed expansion be repeated with a smaller size; quotas count what is allocated.",
		RemoteRequestHeaderUID:                      "Reads the UID of users from the header of an authenticating proxy.",
		SELinuxChangePolicy:                         "Lets pods choose how volumes get their SELinux labels; conflicts are reported.",
		SeparateTaintEvictionController:             "Evicts pods from tainted nodes in a controller of its own.",
		StaleControllerConsistencyDaemonSet:         "The daemonset-controller " + stale,
		StaleControllerConsistencyJob:               "The job-controller " + stale,
		StaleControllerConsistencyReplicaSet:        "The replicaset-controller " + stale,
		StaleControllerConsistencyStatefulSet:       "The statefulset-controller " + stale,
		StatefulSetSemanticRevisionComparison:       "Compares revisions of StatefulSets by meaning, so that defaults of a new release roll nothing out.",
		StorageVersionAPI:                           "Records which API server stores which version; entries of servers that are gone are deleted.",
		StorageVersionMigrator:                      "Rewrites stored objects in the current version as StorageVersionMigrations ask.",
		TaintTolerationComparisonOperators:          "Lets tolerations compare the values of taints as numbers, by Lt and Gt.",
		VolumeAttributesClass:                       "Changes attributes of volumes by VolumeAttributesClasses, which are protected while in use.",
		WorkloadWithJob:                             "Creates a Workload for Jobs whose pods are to be scheduled as a group.",
	}
}
