package v1beta1

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamedSettings is one controller's common settings with its canonical name.
type NamedSettings struct {
	// Name is the canonical name, which is the key of the block.
	Name string
	// Settings points into the configuration.
	Settings *ControllerSettings
	// ResyncPeriod is the resync period its block sets; nil if it inherits the
	// common one or has none.
	ResyncPeriod *metav1.Duration
	// OffByDefault is set if the controller runs only if its own block enables it
	// (docs/specs/controllers.md).
	OffByDefault bool
}

// All returns the settings of every controller, in the order of the blocks. A
// new block must be added here; a test compares the names with the json keys.
func (c *Controllers) All() []NamedSettings {
	return []NamedSettings{
		named("serviceaccount-token-controller", &c.ServiceAccountToken.ControllerSettings, nil),
		named("serviceaccount-controller", &c.ServiceAccount.ControllerSettings, nil),
		named("root-ca-certificate-publisher-controller", &c.RootCACertificatePublisher.ControllerSettings, c.RootCACertificatePublisher.ResyncPeriod),
		named("namespace-controller", &c.Namespace.ControllerSettings, c.Namespace.ResyncPeriod),
		named("replicationcontroller-controller", &c.ReplicationController.ControllerSettings, c.ReplicationController.ResyncPeriod),
		named("replicaset-controller", &c.ReplicaSet.ControllerSettings, c.ReplicaSet.ResyncPeriod),
		named("deployment-controller", &c.Deployment.ControllerSettings, c.Deployment.ResyncPeriod),
		named("statefulset-controller", &c.StatefulSet.ControllerSettings, c.StatefulSet.ResyncPeriod),
		named("daemonset-controller", &c.DaemonSet.ControllerSettings, c.DaemonSet.ResyncPeriod),
		named("job-controller", &c.Job.ControllerSettings, c.Job.ResyncPeriod),
		named("cronjob-controller", &c.CronJob.ControllerSettings, c.CronJob.ResyncPeriod),
		named("ttl-after-finished-controller", &c.TTLAfterFinished.ControllerSettings, c.TTLAfterFinished.ResyncPeriod),
		named("disruption-controller", &c.Disruption.ControllerSettings, c.Disruption.ResyncPeriod),
		named("horizontal-pod-autoscaler-controller", &c.HorizontalPodAutoscaler.ControllerSettings, nil),
		named("pod-garbage-collector-controller", &c.PodGarbageCollector.ControllerSettings, nil),
		named("podgroup-protection-controller", &c.PodGroupProtection.ControllerSettings, c.PodGroupProtection.ResyncPeriod),
		named("garbage-collector-controller", &c.GarbageCollector.ControllerSettings, nil),
		named("endpoints-controller", &c.Endpoints.ControllerSettings, c.Endpoints.ResyncPeriod),
		named("endpointslice-controller", &c.EndpointSlice.ControllerSettings, c.EndpointSlice.ResyncPeriod),
		named("endpointslice-mirroring-controller", &c.EndpointSliceMirroring.ControllerSettings, c.EndpointSliceMirroring.ResyncPeriod),
		named("resourcequota-controller", &c.ResourceQuota.ControllerSettings, c.ResourceQuota.ResyncPeriod),
		named("clusterrole-aggregation-controller", &c.ClusterRoleAggregation.ControllerSettings, c.ClusterRoleAggregation.ResyncPeriod),
		named("validatingadmissionpolicy-status-controller", &c.ValidatingAdmissionPolicyStatus.ControllerSettings, c.ValidatingAdmissionPolicyStatus.ResyncPeriod),
		named("service-cidr-controller", &c.ServiceCIDR.ControllerSettings, c.ServiceCIDR.ResyncPeriod),
		named("storageversion-garbage-collector-controller", &c.StorageVersionGarbageCollector.ControllerSettings, c.StorageVersionGarbageCollector.ResyncPeriod),
		named("storage-version-migrator-controller", &c.StorageVersionMigrator.ControllerSettings, c.StorageVersionMigrator.ResyncPeriod),
		named("certificatesigningrequest-signing-controller", &c.CSRSigning.ControllerSettings, c.CSRSigning.ResyncPeriod),
		named("certificatesigningrequest-approving-controller", &c.CSRApproving.ControllerSettings, c.CSRApproving.ResyncPeriod),
		named("certificatesigningrequest-cleaner-controller", &c.CSRCleaner.ControllerSettings, nil),
		named("podcertificaterequest-cleaner-controller", &c.PodCertificateRequestCleaner.ControllerSettings, nil),
		named("kube-apiserver-serving-clustertrustbundle-publisher-controller", &c.ClusterTrustBundlePublisher.ControllerSettings, c.ClusterTrustBundlePublisher.ResyncPeriod),
		named("legacy-serviceaccount-token-cleaner-controller", &c.LegacyServiceAccountTokenCleaner.ControllerSettings, nil),
		optIn("bootstrap-signer-controller", &c.BootstrapSigner.ControllerSettings, nil),
		optIn("token-cleaner-controller", &c.TokenCleaner.ControllerSettings, nil),
		named("node-ipam-controller", &c.NodeIPAM.ControllerSettings, c.NodeIPAM.ResyncPeriod),
		named("node-lifecycle-controller", &c.NodeLifecycle.ControllerSettings, c.NodeLifecycle.ResyncPeriod),
		named("taint-eviction-controller", &c.TaintEviction.ControllerSettings, nil),
		named("ttl-controller", &c.TTL.ControllerSettings, c.TTL.ResyncPeriod),
		named("persistentvolume-binder-controller", &c.PersistentVolumeBinder.ControllerSettings, c.PersistentVolumeBinder.ResyncPeriod),
		named("persistentvolume-attach-detach-controller", &c.PersistentVolumeAttachDetach.ControllerSettings, c.PersistentVolumeAttachDetach.ResyncPeriod),
		named("persistentvolume-expander-controller", &c.PersistentVolumeExpander.ControllerSettings, c.PersistentVolumeExpander.ResyncPeriod),
		named("persistentvolume-protection-controller", &c.PersistentVolumeProtection.ControllerSettings, c.PersistentVolumeProtection.ResyncPeriod),
		named("persistentvolumeclaim-protection-controller", &c.PersistentVolumeClaimProtection.ControllerSettings, c.PersistentVolumeClaimProtection.ResyncPeriod),
		named("volumeattributesclass-protection-controller", &c.VolumeAttributesClassProtection.ControllerSettings, c.VolumeAttributesClassProtection.ResyncPeriod),
		named("ephemeral-volume-controller", &c.EphemeralVolume.ControllerSettings, c.EphemeralVolume.ResyncPeriod),
		optIn("selinux-warning-controller", &c.SELinuxWarning.ControllerSettings, c.SELinuxWarning.ResyncPeriod),
		named("resourceclaim-controller", &c.ResourceClaim.ControllerSettings, c.ResourceClaim.ResyncPeriod),
		named("device-taint-eviction-controller", &c.DeviceTaintEviction.ControllerSettings, nil),
		named("resourcepoolstatusrequest-controller", &c.ResourcePoolStatusRequest.ControllerSettings, c.ResourcePoolStatusRequest.ResyncPeriod),
		optIn("cloud-node-controller", &c.CloudNode.ControllerSettings, c.CloudNode.ResyncPeriod),
		optIn("cloud-node-lifecycle-controller", &c.CloudNodeLifecycle.ControllerSettings, nil),
		optIn("service-lb-controller", &c.ServiceLB.ControllerSettings, nil),
		optIn("node-route-controller", &c.NodeRoute.ControllerSettings, nil),
	}
}

func named(name string, settings *ControllerSettings, resyncPeriod *metav1.Duration) NamedSettings {
	return NamedSettings{Name: name, Settings: settings, ResyncPeriod: resyncPeriod}
}

func optIn(name string, settings *ControllerSettings, resyncPeriod *metav1.Duration) NamedSettings {
	return NamedSettings{Name: name, Settings: settings, ResyncPeriod: resyncPeriod, OffByDefault: true}
}

// ControllerEnabled reports whether the controller with this canonical name is enabled: by
// its own block, else by controllerDefaults.enabled unless it is off by default. It is
// false for a name that has no block.
func (cfg *KubeControllerManagerConfiguration) ControllerEnabled(name string) bool {
	for _, c := range cfg.Controllers.All() {
		if c.Name != name {
			continue
		}
		if c.Settings.Enabled != nil {
			return *c.Settings.Enabled
		}
		return !c.OffByDefault && (cfg.ControllerDefaults.Enabled == nil || *cfg.ControllerDefaults.Enabled)
	}
	return false
}

// ControllerPaused reports whether the controller with this canonical name is paused as a whole.
func (cfg *KubeControllerManagerConfiguration) ControllerPaused(name string) bool {
	c := cfg.settingsOf(name)
	return c != nil && c.Paused != nil && *c.Paused
}

// PausedNamespacesOf returns the namespaces in which the controller with this canonical name
// writes nothing, sorted: those of its own block, and those of all controllers.
func (cfg *KubeControllerManagerConfiguration) PausedNamespacesOf(name string) []string {
	all := slices.Clone(cfg.PausedNamespaces)
	if c := cfg.settingsOf(name); c != nil {
		all = append(all, c.PausedNamespaces...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// settingsOf returns the settings of a controller, nil for a name that has no block.
func (cfg *KubeControllerManagerConfiguration) settingsOf(name string) *ControllerSettings {
	for _, c := range cfg.Controllers.All() {
		if c.Name == name {
			return c.Settings
		}
	}
	return nil
}

// ResyncPeriod returns the resync period of a controller whose block has own: own if it is
// set, else resync.minPeriod. Zero means never. When inherited, the caller spreads it over
// [1,2) times the value.
func (cfg *KubeControllerManagerConfiguration) ResyncPeriod(own *metav1.Duration) (period time.Duration, inherited bool) {
	if own != nil {
		return own.Duration, false
	}
	if cfg.Resync.MinPeriod == nil {
		return 0, true
	}
	return cfg.Resync.MinPeriod.Duration, true
}
