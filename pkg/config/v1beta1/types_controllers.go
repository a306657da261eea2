package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Controllers has one block per controller, keyed by canonical name. A change in a block
// restarts that controller only, unless the field says that it applies in place. A
// controller that is not part of this build has a block too: enabling it is an error, and
// its settings have no effect.
type Controllers struct {
	// Creates tokens for service account token Secrets and cleans these Secrets up. Idle unless
	// serviceAccounts.privateKeyFile is set.
	ServiceAccountToken ServiceAccountTokenController `json:"serviceaccount-token-controller"`
	// Ensures that each active namespace has the ServiceAccount named default.
	ServiceAccount ServiceAccountController `json:"serviceaccount-controller"`
	// Publishes the ConfigMap kube-root-ca.crt into every namespace.
	RootCACertificatePublisher RootCACertificatePublisherController `json:"root-ca-certificate-publisher-controller"`
	// Empties and finalizes namespaces that are being deleted.
	Namespace NamespaceController `json:"namespace-controller"`
	// Maintains the number of pods of each ReplicationController.
	ReplicationController ReplicationControllerController `json:"replicationcontroller-controller"`
	// Maintains the number of pods of each ReplicaSet.
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
	// Deletes finished Jobs when their time to live has passed.
	TTLAfterFinished TTLAfterFinishedController `json:"ttl-after-finished-controller"`
	// Computes how many pods may be evicted under PodDisruptionBudgets.
	Disruption DisruptionController `json:"disruption-controller"`
	// Scales workloads according to metrics.
	HorizontalPodAutoscaler HorizontalPodAutoscalerController `json:"horizontal-pod-autoscaler-controller"`
	// Deletes pods that have terminated, are orphaned or can no longer be scheduled.
	PodGarbageCollector PodGarbageCollectorController `json:"pod-garbage-collector-controller"`
	// Protects PodGroups from deletion while they have pods. Needs the feature gate
	// GenericWorkload.
	PodGroupProtection PodGroupProtectionController `json:"podgroup-protection-controller"`
	// Deletes objects whose owners are gone.
	GarbageCollector GarbageCollectorController `json:"garbage-collector-controller"`
	// Maintains the Endpoints of Services with selectors.
	Endpoints EndpointsController `json:"endpoints-controller"`
	// Maintains the EndpointSlices of Services with selectors.
	EndpointSlice EndpointSliceController `json:"endpointslice-controller"`
	// Copies Endpoints that users manage into EndpointSlices.
	EndpointSliceMirroring EndpointSliceMirroringController `json:"endpointslice-mirroring-controller"`
	// Tracks the usage of ResourceQuotas.
	ResourceQuota ResourceQuotaController `json:"resourcequota-controller"`
	// Fills ClusterRoles with the rules of the ClusterRoles they select.
	ClusterRoleAggregation ResyncedController `json:"clusterrole-aggregation-controller"`
	// Checks the types of the expressions in ValidatingAdmissionPolicies.
	ValidatingAdmissionPolicyStatus ValidatingAdmissionPolicyStatusController `json:"validatingadmissionpolicy-status-controller"`
	// Protects ServiceCIDRs from deletion while their addresses are in use.
	ServiceCIDR ResyncedController `json:"service-cidr-controller"`
	// Removes the entries of API servers that no longer exist from StorageVersions. Needs
	// the feature gates APIServerIdentity and StorageVersionAPI.
	StorageVersionGarbageCollector ResyncedController `json:"storageversion-garbage-collector-controller"`
	// Rewrites stored objects in the storage version of their resource. Needs the
	// feature gate StorageVersionMigrator, and garbage-collector-controller.
	StorageVersionMigrator StorageVersionMigratorController `json:"storage-version-migrator-controller"`

	// Signs approved CertificateSigningRequests. Idle unless a signer has files.
	CSRSigning CSRSigningController `json:"certificatesigningrequest-signing-controller"`
	// Approves CertificateSigningRequests of kubelets.
	CSRApproving ResyncedController `json:"certificatesigningrequest-approving-controller"`
	// Deletes CertificateSigningRequests that are no longer needed.
	CSRCleaner PlainController `json:"certificatesigningrequest-cleaner-controller"`
	// Deletes PodCertificateRequests that are no longer needed. Needs the feature gate
	// PodCertificateRequest.
	PodCertificateRequestCleaner PlainController `json:"podcertificaterequest-cleaner-controller"`
	// Publishes the CA of the API server as a ClusterTrustBundle. Idle without
	// serviceAccounts.rootCAFile or CA data in the kubeconfig. Needs the feature
	// gate ClusterTrustBundle.
	ClusterTrustBundlePublisher ResyncedController `json:"kube-apiserver-serving-clustertrustbundle-publisher-controller"`
	// Invalidates and later deletes generated token Secrets that are not used.
	LegacyServiceAccountTokenCleaner LegacyServiceAccountTokenCleanerController `json:"legacy-serviceaccount-token-cleaner-controller"`
	// Signs the ConfigMap cluster-info with bootstrap tokens. Off by default.
	BootstrapSigner PlainController `json:"bootstrap-signer-controller"`
	// Deletes bootstrap tokens that have expired. Off by default.
	TokenCleaner PlainController `json:"token-cleaner-controller"`

	// Allocates ranges of pod addresses to nodes. Idle unless allocateNodeCIDRs is true.
	NodeIPAM NodeIPAMController `json:"node-ipam-controller"`
	// Taints nodes that are not ready, and marks their pods.
	NodeLifecycle NodeLifecycleController `json:"node-lifecycle-controller"`
	// Evicts pods from nodes with taints that they do not tolerate.
	TaintEviction PlainController `json:"taint-eviction-controller"`
	// Sets the annotation that limits how long kubelets may cache objects.
	TTL ResyncedController `json:"ttl-controller"`

	// Binds claims to volumes; provisions and reclaims volumes.
	PersistentVolumeBinder PersistentVolumeBinderController `json:"persistentvolume-binder-controller"`
	// Attaches volumes to nodes and detaches them.
	PersistentVolumeAttachDetach PersistentVolumeAttachDetachController `json:"persistentvolume-attach-detach-controller"`
	// Expands volumes.
	PersistentVolumeExpander ResyncedController `json:"persistentvolume-expander-controller"`
	// Protects PersistentVolumes from deletion while they are bound.
	PersistentVolumeProtection ResyncedController `json:"persistentvolume-protection-controller"`
	// Protects PersistentVolumeClaims from deletion while pods use them.
	PersistentVolumeClaimProtection ResyncedController `json:"persistentvolumeclaim-protection-controller"`
	// Protects VolumeAttributesClasses from deletion while volumes or claims use them.
	VolumeAttributesClassProtection ResyncedController `json:"volumeattributesclass-protection-controller"`
	// Creates the claims of generic ephemeral volumes.
	EphemeralVolume EphemeralVolumeController `json:"ephemeral-volume-controller"`
	// Warns about pods whose volumes have conflicting SELinux labels. Off by default.
	SELinuxWarning ResyncedController `json:"selinux-warning-controller"`

	// Creates ResourceClaims from templates and releases unused ones.
	ResourceClaim ResourceClaimController `json:"resourceclaim-controller"`
	// Evicts pods that use devices with taints.
	DeviceTaintEviction DeviceTaintEvictionController `json:"device-taint-eviction-controller"`
	// Answers requests for the status of device pools. Needs the feature gate
	// DRAResourcePoolStatus.
	ResourcePoolStatusRequest ResyncedController `json:"resourcepoolstatusrequest-controller"`

	// Initializes nodes with data from a cloud provider. Off by default.
	CloudNode CloudNodeController `json:"cloud-node-controller"`
	// Deletes nodes whose machine no longer exists. Off by default.
	CloudNodeLifecycle CloudNodeLifecycleController `json:"cloud-node-lifecycle-controller"`
	// Maintains a cloud's load balancers for Services. Off by default.
	ServiceLB ServiceLBController `json:"service-lb-controller"`
	// Maintains a cloud's routes to the pods of nodes. Off by default.
	NodeRoute NodeRouteController `json:"node-route-controller"`
}

// ControllerSettings is what every controller's block starts with.
type ControllerSettings struct {
	// Whether the controller runs. Default: controllerDefaults.enabled, or false
	// for a controller that is off by default. A change starts or stops the
	// controller.
	Enabled *bool `json:"enabled,omitempty"`
	// Whether the controller is paused: it finishes the work in flight and then writes
	// nothing, and its caches stay filled. When it is resumed, it works off what has piled
	// up. Default: false. A change pauses or resumes the controller.
	Paused *bool `json:"paused,omitempty"`
	// Namespaces in which the controller writes nothing, besides the pausedNamespaces of
	// all controllers. It is an error for a controller that writes no objects in
	// namespaces. Default: empty. A change applies in place.
	PausedNamespaces []string `json:"pausedNamespaces,omitempty"`
}

// ResyncSettings is part of the block of every controller whose event handlers are resynced.
type ResyncSettings struct {
	// Period after which every object is reconciled again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s or
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// PlainController configures a controller without settings of its own.
type PlainController struct {
	ControllerSettings `json:",inline"`
}

// ResyncedController configures a controller without settings of its own that reconciles
// every object again periodically.
type ResyncedController struct {
	ControllerSettings `json:",inline"`
	ResyncSettings     `json:",inline"`
}

// ServiceAccountTokenController configures serviceaccount-token-controller. Its
// files are serviceAccounts.privateKeyFile and serviceAccounts.rootCAFile.
type ServiceAccountTokenController struct {
	ControllerSettings `json:",inline"`
	// Workers for each of the two queues, of ServiceAccounts and of Secrets. Default: 5.
	// Range: 1 to 1000. A change restarts the controller.
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
	// Period after which every namespace is reconciled again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s or
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// NamespaceController configures namespace-controller.
type NamespaceController struct {
	ControllerSettings `json:",inline"`
	// Namespaces emptied at the same time. Default: 10. Range: 1 to 1000.
	// A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Period after which every namespace is reconciled again. Default: 5m, not
	// resync.minPeriod. Range: 0s (never), or 1s or more. A change applies in
	// place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// ReplicationControllerController configures replicationcontroller-controller.
type ReplicationControllerController struct {
	ControllerSettings `json:",inline"`
	// ReplicationControllers reconciled at the same time. Default: 5. Range: 1 to
	// 1000. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	ResyncSettings  `json:",inline"`
}

// ReplicaSetController configures replicaset-controller.
type ReplicaSetController struct {
	ControllerSettings `json:",inline"`
	// ReplicaSets reconciled at the same time. Default: 5. Range: 1 to 1000.
	// A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	ResyncSettings  `json:",inline"`
}

// DeploymentController configures deployment-controller.
type DeploymentController struct {
	ControllerSettings `json:",inline"`
	// Deployments reconciled at the same time. Default: 5. Range: 1 to 1000.
	// A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	ResyncSettings  `json:",inline"`
}

// EndpointSliceController configures endpointslice-controller.
type EndpointSliceController struct {
	ControllerSettings `json:",inline"`
	// Services reconciled at the same time, and as many workers that map pods to
	// Services. Default: 5. Range: 1 to 50. A change restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	ResyncSettings  `json:",inline"`
	// Maximum number of endpoints in a slice before another one is created. Default: 100.
	// Range: 1 to 1000. A change restarts the controller.
	MaxEndpointsPerSlice *int32 `json:"maxEndpointsPerSlice,omitempty"`
	// How long pod changes are batched before the Service is reconciled: fewer writes,
	// later endpoints. Default: 0s, no batching. Range: 0s to 1h. A change restarts the
	// controller.
	EndpointUpdatesBatchPeriod *metav1.Duration `json:"endpointUpdatesBatchPeriod,omitempty"`
}
