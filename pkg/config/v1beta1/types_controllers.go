package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Controllers has one block per controller, keyed by canonical name. Whatever is
// said in a block restarts that controller only, unless the field says that it
// applies in place. A controller that is not part of a build has its block all the
// same: enabling it is an error, and its settings have no effect.
type Controllers struct {
	// Mints and cleans up legacy service account token Secrets. Idle unless
	// serviceAccounts.privateKeyFile is set.
	ServiceAccountToken ServiceAccountTokenController `json:"serviceaccount-token-controller"`
	// Ensures that each active namespace has the ServiceAccount named default.
	ServiceAccount ServiceAccountController `json:"serviceaccount-controller"`
	// Publishes the ConfigMap kube-root-ca.crt into every namespace.
	RootCACertificatePublisher RootCACertificatePublisherController `json:"root-ca-certificate-publisher-controller"`
	// Empties and finalizes namespaces that are being deleted.
	Namespace NamespaceController `json:"namespace-controller"`
	// Keeps the number of pods of each ReplicationController.
	ReplicationController ReplicationControllerController `json:"replicationcontroller-controller"`
	// Keeps the number of pods of each ReplicaSet.
	ReplicaSet ReplicaSetController `json:"replicaset-controller"`
	// Rolls out Deployments by managing their ReplicaSets.
	Deployment DeploymentController `json:"deployment-controller"`
	// Runs ordered pods with stable identities and volumes of their own.
	StatefulSet StatefulSetController `json:"statefulset-controller"`
	// Runs one pod on each eligible node.
	DaemonSet DaemonSetController `json:"daemonset-controller"`
	// Runs pods to completion.
	Job JobController `json:"job-controller"`
	// Creates Jobs on a schedule and removes old ones.
	CronJob CronJobController `json:"cronjob-controller"`
	// Deletes finished Jobs when their time to live is over.
	TTLAfterFinished TTLAfterFinishedController `json:"ttl-after-finished-controller"`
	// Works out how many pods may be evicted under PodDisruptionBudgets.
	Disruption DisruptionController `json:"disruption-controller"`
	// Scales workloads by metrics.
	HorizontalPodAutoscaler HorizontalPodAutoscalerController `json:"horizontal-pod-autoscaler-controller"`
	// Deletes pods that have ended, are orphaned or cannot be scheduled any more.
	PodGarbageCollector PodGarbageCollectorController `json:"pod-garbage-collector-controller"`
	// Keeps PodGroups while they have pods. Needs the feature gate GenericWorkload.
	PodGroupProtection PodGroupProtectionController `json:"podgroup-protection-controller"`
	// Deletes objects whose owners are gone.
	GarbageCollector GarbageCollectorController `json:"garbage-collector-controller"`
	// Maintains the Endpoints of Services with selectors.
	Endpoints EndpointsController `json:"endpoints-controller"`
	// Maintains the EndpointSlices of Services with selectors.
	EndpointSlice EndpointSliceController `json:"endpointslice-controller"`
	// Copies Endpoints that users manage into EndpointSlices.
	EndpointSliceMirroring EndpointSliceMirroringController `json:"endpointslice-mirroring-controller"`
	// Keeps account of what is used of ResourceQuotas.
	ResourceQuota ResourceQuotaController `json:"resourcequota-controller"`
	// Fills ClusterRoles with the rules of those they select.
	ClusterRoleAggregation ResyncedController `json:"clusterrole-aggregation-controller"`
	// Checks the types of the expressions in ValidatingAdmissionPolicies.
	ValidatingAdmissionPolicyStatus ValidatingAdmissionPolicyStatusController `json:"validatingadmissionpolicy-status-controller"`
	// Keeps ServiceCIDRs while addresses of them are in use.
	ServiceCIDR ResyncedController `json:"service-cidr-controller"`
	// Removes what API servers that are gone have left in StorageVersions. Needs
	// the feature gates APIServerIdentity and StorageVersionAPI.
	StorageVersionGarbageCollector ResyncedController `json:"storageversion-garbage-collector-controller"`
	// Rewrites stored objects in the storage version of their resource. Needs the
	// feature gate StorageVersionMigrator, and garbage-collector-controller.
	StorageVersionMigrator ResyncedController `json:"storage-version-migrator-controller"`

	// Signs approved CertificateSigningRequests. Idle unless a signer has files.
	CSRSigning CSRSigningController `json:"certificatesigningrequest-signing-controller"`
	// Approves CertificateSigningRequests of kubelets.
	CSRApproving ResyncedController `json:"certificatesigningrequest-approving-controller"`
	// Deletes CertificateSigningRequests that are over.
	CSRCleaner PlainController `json:"certificatesigningrequest-cleaner-controller"`
	// Deletes PodCertificateRequests that are over. Needs the feature gate
	// PodCertificateRequest.
	PodCertificateRequestCleaner PlainController `json:"podcertificaterequest-cleaner-controller"`
	// Publishes the CA of the API server as a ClusterTrustBundle. Idle without
	// serviceAccounts.rootCAFile or CA data in the kubeconfig. Needs the feature
	// gate ClusterTrustBundle.
	ClusterTrustBundlePublisher ResyncedController `json:"kube-apiserver-serving-clustertrustbundle-publisher-controller"`
	// Invalidates, then deletes, generated token Secrets that nobody uses.
	LegacyServiceAccountTokenCleaner LegacyServiceAccountTokenCleanerController `json:"legacy-serviceaccount-token-cleaner-controller"`
	// Signs the ConfigMap cluster-info with bootstrap tokens. Off by default.
	BootstrapSigner PlainController `json:"bootstrap-signer-controller"`
	// Deletes bootstrap tokens that have expired. Off by default.
	TokenCleaner PlainController `json:"token-cleaner-controller"`

	// Gives nodes their ranges of pod addresses. Idle unless allocateNodeCIDRs is
	// true.
	NodeIPAM NodeIPAMController `json:"node-ipam-controller"`
	// Taints nodes that are not ready, and marks their pods.
	NodeLifecycle NodeLifecycleController `json:"node-lifecycle-controller"`
	// Evicts pods from nodes with taints that they do not tolerate.
	TaintEviction PlainController `json:"taint-eviction-controller"`
	// Tells kubelets by an annotation how long they may cache.
	TTL ResyncedController `json:"ttl-controller"`

	// Binds claims to volumes; provisions and reclaims volumes.
	PersistentVolumeBinder PersistentVolumeBinderController `json:"persistentvolume-binder-controller"`
	// Attaches volumes to nodes and detaches them.
	PersistentVolumeAttachDetach PersistentVolumeAttachDetachController `json:"persistentvolume-attach-detach-controller"`
	// Expands volumes.
	PersistentVolumeExpander ResyncedController `json:"persistentvolume-expander-controller"`
	// Keeps PersistentVolumes while they are bound.
	PersistentVolumeProtection ResyncedController `json:"persistentvolume-protection-controller"`
	// Keeps PersistentVolumeClaims while pods use them.
	PersistentVolumeClaimProtection ResyncedController `json:"persistentvolumeclaim-protection-controller"`
	// Keeps VolumeAttributesClasses while volumes or claims use them.
	VolumeAttributesClassProtection ResyncedController `json:"volumeattributesclass-protection-controller"`
	// Creates the claims of generic ephemeral volumes.
	EphemeralVolume EphemeralVolumeController `json:"ephemeral-volume-controller"`
	// Warns of pods whose volumes have conflicting SELinux labels. Off by default.
	SELinuxWarning ResyncedController `json:"selinux-warning-controller"`

	// Creates ResourceClaims from templates and releases unused ones.
	ResourceClaim ResourceClaimController `json:"resourceclaim-controller"`
	// Evicts pods that use devices with taints.
	DeviceTaintEviction DeviceTaintEvictionController `json:"device-taint-eviction-controller"`
	// Answers requests for the status of pools of devices. Needs the feature gate
	// DRAResourcePoolStatus.
	ResourcePoolStatusRequest ResyncedController `json:"resourcepoolstatusrequest-controller"`

	// Initializes nodes with what a cloud provider knows of them. Off by default.
	CloudNode CloudNodeController `json:"cloud-node-controller"`
	// Deletes nodes whose machine is gone. Off by default.
	CloudNodeLifecycle CloudNodeLifecycleController `json:"cloud-node-lifecycle-controller"`
	// Keeps a cloud's load balancers for Services. Off by default.
	ServiceLB ServiceLBController `json:"service-lb-controller"`
	// Keeps a cloud's routes to the pods of nodes. Off by default.
	NodeRoute NodeRouteController `json:"node-route-controller"`
}

// ControllerSettings is what every controller's block starts with.
type ControllerSettings struct {
	// Whether the controller runs. Default: controllerDefaults.enabled, or false
	// for a controller that is off by default. A change starts or stops the
	// controller.
	Enabled *bool `json:"enabled,omitempty"`
}

// PlainController configures a controller that has no settings of its own.
type PlainController struct {
	ControllerSettings `json:",inline"`
}

// ResyncedController configures a controller that has no settings of its own but
// looks at every object again from time to time.
type ResyncedController struct {
	ControllerSettings `json:",inline"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// ServiceAccountTokenController configures serviceaccount-token-controller. Its
// files are serviceAccounts.privateKeyFile and serviceAccounts.rootCAFile.
type ServiceAccountTokenController struct {
	ControllerSettings `json:",inline"`
	// Workers per queue; there are two queues, of ServiceAccounts and of Secrets.
	// Default: 5. Range: 1 to 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
}

// ServiceAccountController configures serviceaccount-controller, which has five
// workers and never resyncs.
type ServiceAccountController struct {
	ControllerSettings `json:",inline"`
}

// RootCACertificatePublisherController configures
// root-ca-certificate-publisher-controller, which has five workers. Its file is
// serviceAccounts.rootCAFile.
type RootCACertificatePublisherController struct {
	ControllerSettings `json:",inline"`
	// Period after which every namespace is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// NamespaceController configures namespace-controller.
type NamespaceController struct {
	ControllerSettings `json:",inline"`
	// Namespaces emptied at the same time. Default: 10. Range: 1 to 1000.
	// A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Period after which every namespace is looked at again. Default: 5m, not
	// resync.minPeriod. Range: 0s (never), or 1s and more. A change applies in
	// place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// ReplicationControllerController configures replicationcontroller-controller.
type ReplicationControllerController struct {
	ControllerSettings `json:",inline"`
	// ReplicationControllers reconciled at the same time. Default: 5. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// ReplicaSetController configures replicaset-controller.
type ReplicaSetController struct {
	ControllerSettings `json:",inline"`
	// ReplicaSets reconciled at the same time. Default: 5. Range: 1 to 1000.
	// A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// DeploymentController configures deployment-controller.
type DeploymentController struct {
	ControllerSettings `json:",inline"`
	// Deployments reconciled at the same time. Default: 5. Range: 1 to 1000.
	// A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// EndpointSliceController configures endpointslice-controller.
type EndpointSliceController struct {
	ControllerSettings `json:",inline"`
	// Services reconciled at the same time, and as many workers that map pods to
	// Services. Default: 5. Range: 1 to 50. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
	// Endpoints a slice holds at most before another one is made. Default: 100.
	// Range: 1 to 1000. A change restarts the controller.
	MaxEndpointsPerSlice *int32 `json:"maxEndpointsPerSlice,omitempty"`
	// How long pod changes are gathered before the Service is reconciled: fewer
	// writes, later endpoints. Default: 0s, at once. Range: 0s to 1h. A change
	// restarts the controller.
	EndpointUpdatesBatchPeriod *metav1.Duration `json:"endpointUpdatesBatchPeriod,omitempty"`
}
