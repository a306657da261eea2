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

// block finds the settings of one controller in the configuration.
type block struct {
	name         string
	offByDefault bool
	in           func(*Controllers) (*ControllerSettings, *metav1.Duration)
}

// blocks are those of every controller, in the order in which they are listed. A new block must be added here; a test
// compares the names with the json keys.
var blocks = []block{
	named("serviceaccount-token-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.ServiceAccountToken.ControllerSettings, nil
	}),
	named("serviceaccount-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.ServiceAccount.ControllerSettings, nil
	}),
	named("root-ca-certificate-publisher-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.RootCACertificatePublisher.ControllerSettings, c.RootCACertificatePublisher.ResyncPeriod
	}),
	named("namespace-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.Namespace.ControllerSettings, c.Namespace.ResyncPeriod
	}),
	named("replicationcontroller-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.ReplicationController.ControllerSettings, c.ReplicationController.ResyncPeriod
	}),
	named("replicaset-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.ReplicaSet.ControllerSettings, c.ReplicaSet.ResyncPeriod
	}),
	named("deployment-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.Deployment.ControllerSettings, c.Deployment.ResyncPeriod
	}),
	named("statefulset-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.StatefulSet.ControllerSettings, c.StatefulSet.ResyncPeriod
	}),
	named("daemonset-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.DaemonSet.ControllerSettings, c.DaemonSet.ResyncPeriod
	}),
	named("job-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.Job.ControllerSettings, c.Job.ResyncPeriod
	}),
	named("cronjob-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.CronJob.ControllerSettings, c.CronJob.ResyncPeriod
	}),
	named("ttl-after-finished-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.TTLAfterFinished.ControllerSettings, c.TTLAfterFinished.ResyncPeriod
	}),
	named("disruption-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.Disruption.ControllerSettings, c.Disruption.ResyncPeriod
	}),
	named("horizontal-pod-autoscaler-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.HorizontalPodAutoscaler.ControllerSettings, nil
	}),
	named("pod-garbage-collector-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.PodGarbageCollector.ControllerSettings, nil
	}),
	named("podgroup-protection-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.PodGroupProtection.ControllerSettings, c.PodGroupProtection.ResyncPeriod
	}),
	named("garbage-collector-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.GarbageCollector.ControllerSettings, nil
	}),
	named("endpoints-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.Endpoints.ControllerSettings, c.Endpoints.ResyncPeriod
	}),
	named("endpointslice-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.EndpointSlice.ControllerSettings, c.EndpointSlice.ResyncPeriod
	}),
	named("endpointslice-mirroring-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.EndpointSliceMirroring.ControllerSettings, c.EndpointSliceMirroring.ResyncPeriod
	}),
	named("resourcequota-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.ResourceQuota.ControllerSettings, c.ResourceQuota.ResyncPeriod
	}),
	named("clusterrole-aggregation-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.ClusterRoleAggregation.ControllerSettings, c.ClusterRoleAggregation.ResyncPeriod
	}),
	named("validatingadmissionpolicy-status-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.ValidatingAdmissionPolicyStatus.ControllerSettings, c.ValidatingAdmissionPolicyStatus.ResyncPeriod
	}),
	named("service-cidr-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.ServiceCIDR.ControllerSettings, c.ServiceCIDR.ResyncPeriod
	}),
	named("storageversion-garbage-collector-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.StorageVersionGarbageCollector.ControllerSettings, c.StorageVersionGarbageCollector.ResyncPeriod
	}),
	named("storage-version-migrator-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.StorageVersionMigrator.ControllerSettings, c.StorageVersionMigrator.ResyncPeriod
	}),
	named("certificatesigningrequest-signing-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.CSRSigning.ControllerSettings, c.CSRSigning.ResyncPeriod
	}),
	named("certificatesigningrequest-approving-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.CSRApproving.ControllerSettings, c.CSRApproving.ResyncPeriod
	}),
	named("certificatesigningrequest-cleaner-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.CSRCleaner.ControllerSettings, nil
	}),
	named("podcertificaterequest-cleaner-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.PodCertificateRequestCleaner.ControllerSettings, nil
	}),
	named("kube-apiserver-serving-clustertrustbundle-publisher-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.ClusterTrustBundlePublisher.ControllerSettings, c.ClusterTrustBundlePublisher.ResyncPeriod
	}),
	named("legacy-serviceaccount-token-cleaner-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.LegacyServiceAccountTokenCleaner.ControllerSettings, nil
	}),
	optIn("bootstrap-signer-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.BootstrapSigner.ControllerSettings, nil
	}),
	optIn("token-cleaner-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.TokenCleaner.ControllerSettings, nil
	}),
	named("node-ipam-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.NodeIPAM.ControllerSettings, c.NodeIPAM.ResyncPeriod
	}),
	named("node-lifecycle-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.NodeLifecycle.ControllerSettings, c.NodeLifecycle.ResyncPeriod
	}),
	named("taint-eviction-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.TaintEviction.ControllerSettings, nil
	}),
	named("ttl-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.TTL.ControllerSettings, c.TTL.ResyncPeriod
	}),
	named("persistentvolume-binder-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.PersistentVolumeBinder.ControllerSettings, c.PersistentVolumeBinder.ResyncPeriod
	}),
	named("persistentvolume-attach-detach-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.PersistentVolumeAttachDetach.ControllerSettings, c.PersistentVolumeAttachDetach.ResyncPeriod
	}),
	named("persistentvolume-expander-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.PersistentVolumeExpander.ControllerSettings, c.PersistentVolumeExpander.ResyncPeriod
	}),
	named("persistentvolume-protection-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.PersistentVolumeProtection.ControllerSettings, c.PersistentVolumeProtection.ResyncPeriod
	}),
	named("persistentvolumeclaim-protection-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.PersistentVolumeClaimProtection.ControllerSettings, c.PersistentVolumeClaimProtection.ResyncPeriod
	}),
	named("volumeattributesclass-protection-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.VolumeAttributesClassProtection.ControllerSettings, c.VolumeAttributesClassProtection.ResyncPeriod
	}),
	named("ephemeral-volume-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.EphemeralVolume.ControllerSettings, c.EphemeralVolume.ResyncPeriod
	}),
	optIn("selinux-warning-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.SELinuxWarning.ControllerSettings, c.SELinuxWarning.ResyncPeriod
	}),
	named("resourceclaim-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.ResourceClaim.ControllerSettings, c.ResourceClaim.ResyncPeriod
	}),
	named("device-taint-eviction-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.DeviceTaintEviction.ControllerSettings, nil
	}),
	named("resourcepoolstatusrequest-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.ResourcePoolStatusRequest.ControllerSettings, c.ResourcePoolStatusRequest.ResyncPeriod
	}),
	optIn("cloud-node-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.CloudNode.ControllerSettings, c.CloudNode.ResyncPeriod
	}),
	optIn("cloud-node-lifecycle-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.CloudNodeLifecycle.ControllerSettings, nil
	}),
	optIn("service-lb-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.ServiceLB.ControllerSettings, nil
	}),
	optIn("node-route-controller", func(c *Controllers) (*ControllerSettings, *metav1.Duration) {
		return &c.NodeRoute.ControllerSettings, nil
	}),
}

func named(name string, in func(*Controllers) (*ControllerSettings, *metav1.Duration)) block {
	return block{name: name, in: in}
}

func optIn(name string, in func(*Controllers) (*ControllerSettings, *metav1.Duration)) block {
	return block{name: name, in: in, offByDefault: true}
}

// blockOf are the blocks by the names of their controllers. Plans look controllers up for each field that changes.
var blockOf = func() map[string]block {
	byName := make(map[string]block, len(blocks))
	for _, b := range blocks {
		byName[b.name] = b
	}
	return byName
}()

// All returns the settings of every controller, in the order of the blocks.
func (c *Controllers) All() []NamedSettings {
	all := make([]NamedSettings, 0, len(blocks))
	for _, b := range blocks {
		all = append(all, b.of(c))
	}
	return all
}

// find returns the settings of the controller with this canonical name; ok is false for a name that has no block.
func (c *Controllers) find(name string) (settings NamedSettings, ok bool) {
	b, ok := blockOf[name]
	if !ok {
		return NamedSettings{}, false
	}
	return b.of(c), true
}

func (b block) of(c *Controllers) NamedSettings {
	settings, resyncPeriod := b.in(c)
	return NamedSettings{Name: b.name, Settings: settings, ResyncPeriod: resyncPeriod, OffByDefault: b.offByDefault}
}

// ControllerEnabled reports whether the controller with this canonical name is enabled: by
// its own block, else by controllerDefaults.enabled unless it is off by default. It is
// false for a name that has no block.
func (cfg *KubeControllerManagerConfiguration) ControllerEnabled(name string) bool {
	c, ok := cfg.Controllers.find(name)
	switch {
	case !ok:
		return false
	case c.Settings.Enabled != nil:
		return *c.Settings.Enabled
	}
	return !c.OffByDefault && (cfg.ControllerDefaults.Enabled == nil || *cfg.ControllerDefaults.Enabled)
}

// ControllerPaused reports whether the controller with this canonical name is paused as a whole.
func (cfg *KubeControllerManagerConfiguration) ControllerPaused(name string) bool {
	c, ok := cfg.Controllers.find(name)
	return ok && c.Settings.Paused != nil && *c.Settings.Paused
}

// PausedNamespacesOf returns the namespaces in which the controller with this canonical name
// writes nothing, sorted: those of its own block, and those of all controllers.
func (cfg *KubeControllerManagerConfiguration) PausedNamespacesOf(name string) []string {
	all := slices.Clone(cfg.PausedNamespaces)
	if c, ok := cfg.Controllers.find(name); ok {
		all = append(all, c.Settings.PausedNamespaces...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ResyncPeriodOf returns the resync period that the block of a controller sets; nil if it inherits the common one or
// has none.
func (cfg *KubeControllerManagerConfiguration) ResyncPeriodOf(name string) *metav1.Duration {
	c, _ := cfg.Controllers.find(name)
	return c.ResyncPeriod
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
