package v1beta1

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// NewDefault returns the configuration in which every field has its default.
func NewDefault() *KubeControllerManagerConfiguration {
	cfg := &KubeControllerManagerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind},
	}
	SetDefaults(cfg)
	return cfg
}

// SetDefaults fills in every field that is not set and has a constant default. It leaves
// apiVersion and kind alone: those identify the file.
func SetDefaults(cfg *KubeControllerManagerConfiguration) {
	setClientConnectionDefaults(&cfg.ClientConnection)
	setLeaderElectionDefaults(&cfg.LeaderElection)
	setLeaderMigrationDefaults(&cfg.LeaderMigration)
	setDuration(&cfg.Resync.MinPeriod, 12*time.Hour)
	setDuration(&cfg.Reload.SettleTime, 100*time.Millisecond)
	setDuration(&cfg.Reload.PollInterval, 10*time.Second)
	setDuration(&cfg.Reload.DrainTimeout, 10*time.Second)
	setServingDefaults(&cfg.Serving)
	logsapi.SetRecommendedLoggingConfiguration(&cfg.Logging)
	// A duration is shown as 5s everywhere, however the file spells it.
	cfg.Logging.FlushFrequency.SerializeAsString = true
	setString(&cfg.EmulatedVersion, "1.36")
	setString(&cfg.Volumes.FlexVolumePluginDirectory, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/")
	setString(&cfg.Cloud.ClusterName, "kubernetes")
	setValue(&cfg.Cloud.AllowUntagged, false)
	setDuration(&cfg.ControllerStartInterval, 0)
	setDeletionBreakerDefaults(&cfg.DeletionBreaker)
	setValue(&cfg.ControllerDefaults.Enabled, true)
	setControllerDefaults(&cfg.Controllers)
	setNodeControllerDefaults(&cfg.Controllers)
	setStorageControllerDefaults(&cfg.Controllers)
	setAPIControllerDefaults(&cfg.Controllers)
}

func setClientConnectionDefaults(c *ClientConnection) {
	setString(&c.ContentType, "application/vnd.kubernetes.protobuf")
	setValue(&c.QPS, 0)
	setValue(&c.Burst, 0)
	setValue(&c.UseServiceAccountCredentials, false)
}

func setLeaderElectionDefaults(l *LeaderElection) {
	setValue(&l.LeaderElect, true)
	setDuration(&l.LeaseDuration, 15*time.Second)
	setDuration(&l.RenewDeadline, 10*time.Second)
	setDuration(&l.RetryPeriod, 2*time.Second)
	setString(&l.ResourceName, "kube-controller-manager")
	setString(&l.ResourceNamespace, "kube-system")
	setString(&l.Standby, StandbyWarm)
	setString(&l.Spread, SpreadBalanced)
}

func setLeaderMigrationDefaults(m *LeaderMigration) {
	setValue(&m.Enabled, false)
	setString(&m.LeaderName, "cloud-provider-extraction-migration")
	setString(&m.Component, "kube-controller-manager")
	if m.ControllerLeaders == nil {
		m.ControllerLeaders = []ControllerLeader{
			{Name: "node-route-controller", Component: AnyComponent},
			{Name: "service-lb-controller", Component: AnyComponent},
			{Name: "cloud-node-lifecycle-controller", Component: AnyComponent},
		}
	}
}

func setServingDefaults(s *Serving) {
	setString(&s.BindAddress, "0.0.0.0")
	setValue(&s.Port, 10257)
	setValue(&s.PermitPortSharing, false)
	setValue(&s.PermitAddressSharing, false)
	setString(&s.TLS.MinVersion, "VersionTLS12")
	setValue(&s.HTTP2.Enabled, true)
	setValue(&s.HTTP2.MaxStreamsPerConnection, 100)
	setValue(&s.Authentication.SkipLookup, false)
	setValue(&s.Authentication.TolerateLookupFailure, false)
	setDuration(&s.Authentication.CacheTTL, 10*time.Second)
	setList(&s.Authentication.RequestHeader.UsernameHeaders, "x-remote-user")
	setList(&s.Authentication.RequestHeader.GroupHeaders, "x-remote-group")
	setList(&s.Authentication.RequestHeader.ExtraHeaderPrefixes, "x-remote-extra-")
	setList(&s.Authorization.AlwaysAllowPaths, "/healthz", "/readyz", "/livez")
	setDuration(&s.Authorization.AuthorizedTTL, 10*time.Second)
	setDuration(&s.Authorization.UnauthorizedTTL, 10*time.Second)
	setValue(&s.Profiling, true)
	setValue(&s.ContentionProfiling, false)
}

func setControllerDefaults(c *Controllers) {
	setValue(&c.ServiceAccountToken.ConcurrentSyncs, 5)
	setValue(&c.Namespace.ConcurrentSyncs, 10)
	setDuration(&c.Namespace.ResyncPeriod, 5*time.Minute)
	setValue(&c.ReplicationController.ConcurrentSyncs, 5)
	setValue(&c.ReplicaSet.ConcurrentSyncs, 5)
	setValue(&c.Deployment.ConcurrentSyncs, 5)
	setValue(&c.EndpointSlice.ConcurrentSyncs, 5)
	setValue(&c.EndpointSlice.MaxEndpointsPerSlice, 100)
	setDuration(&c.EndpointSlice.EndpointUpdatesBatchPeriod, 0)
	setValue(&c.StatefulSet.ConcurrentSyncs, 5)
	setValue(&c.DaemonSet.ConcurrentSyncs, 2)
	setValue(&c.Job.ConcurrentSyncs, 5)
	setValue(&c.CronJob.ConcurrentSyncs, 5)
	setValue(&c.TTLAfterFinished.ConcurrentSyncs, 5)
	setAutoscalerDefaults(&c.HorizontalPodAutoscaler)
	setValue(&c.PodGarbageCollector.TerminatedPodThreshold, 12500)
	setValue(&c.GarbageCollector.ConcurrentSyncs, 20)
	if c.GarbageCollector.IgnoredResources == nil {
		c.GarbageCollector.IgnoredResources = []GroupResource{
			{Resource: "events"}, {Group: "events.k8s.io", Resource: "events"},
		}
	}
	setValue(&c.Endpoints.ConcurrentSyncs, 5)
	setDuration(&c.Endpoints.EndpointUpdatesBatchPeriod, 0)
	setValue(&c.EndpointSliceMirroring.ConcurrentSyncs, 5)
	setValue(&c.EndpointSliceMirroring.MaxEndpointsPerSubset, 1000)
	setDuration(&c.EndpointSliceMirroring.EndpointUpdatesBatchPeriod, 0)
}

func setAutoscalerDefaults(c *HorizontalPodAutoscalerController) {
	setValue(&c.ConcurrentSyncs, 5)
	setDuration(&c.SyncPeriod, 15*time.Second)
	setDuration(&c.DownscaleStabilization, 5*time.Minute)
	setValue(&c.Tolerance, 0.1)
	setDuration(&c.CPUInitializationPeriod, 5*time.Minute)
	setDuration(&c.InitialReadinessDelay, 30*time.Second)
}

func setNodeControllerDefaults(c *Controllers) {
	setValue(&c.NodeIPAM.AllocateNodeCIDRs, false)
	setValue(&c.NodeIPAM.NodeCIDRMaskSizeIPv4, 24)
	setValue(&c.NodeIPAM.NodeCIDRMaskSizeIPv6, 64)
	setDuration(&c.NodeLifecycle.NodeMonitorPeriod, 5*time.Second)
	setDuration(&c.NodeLifecycle.NodeMonitorGracePeriod, 50*time.Second)
	setDuration(&c.NodeLifecycle.NodeStartupGracePeriod, time.Minute)
	setValue(&c.NodeLifecycle.NodeEvictionRate, 0.1)
	setValue(&c.NodeLifecycle.SecondaryNodeEvictionRate, 0.01)
	setValue(&c.NodeLifecycle.LargeClusterSizeThreshold, 50)
	setValue(&c.NodeLifecycle.UnhealthyZoneThreshold, 0.55)
	setValue(&c.CloudNode.ConcurrentSyncs, 1)
	setValue(&c.CloudNode.ConcurrentStatusUpdates, 0)
	setDuration(&c.CloudNode.NodeStatusUpdateFrequency, 5*time.Minute)
	setDuration(&c.CloudNodeLifecycle.NodeMonitorPeriod, 5*time.Second)
	setValue(&c.ServiceLB.ConcurrentSyncs, 1)
	setDuration(&c.NodeRoute.ReconciliationPeriod, 10*time.Second)
}

func setStorageControllerDefaults(c *Controllers) {
	b := &c.PersistentVolumeBinder
	setDuration(&b.SyncPeriod, 15*time.Second)
	setValue(&b.DynamicProvisioning, true)
	setValue(&b.HostPathProvisioning, false)
	setDuration(&b.Recycler.NFS.MinimumTimeout, 5*time.Minute)
	setDuration(&b.Recycler.NFS.TimeoutIncrement, 30*time.Second)
	setDuration(&b.Recycler.HostPath.MinimumTimeout, time.Minute)
	setDuration(&b.Recycler.HostPath.TimeoutIncrement, 30*time.Second)
	setDuration(&c.PersistentVolumeAttachDetach.ReconcilerSyncPeriod, time.Minute)
	setValue(&c.PersistentVolumeAttachDetach.ForceDetachOnTimeout, true)
	setValue(&c.EphemeralVolume.ConcurrentSyncs, 5)
}

func setAPIControllerDefaults(c *Controllers) {
	setValue(&c.ResourceQuota.ConcurrentSyncs, 5)
	setDuration(&c.ResourceQuota.SyncPeriod, 5*time.Minute)
	setValue(&c.ValidatingAdmissionPolicyStatus.ConcurrentSyncs, 5)
	setValue(&c.StorageVersionMigrator.MigrationRate, 400)
	setValue(&c.ResourceClaim.ConcurrentSyncs, 50)
	setValue(&c.DeviceTaintEviction.ConcurrentSyncs, 8)
	setDuration(&c.CSRSigning.CertificateDuration, 365*24*time.Hour)
	setDuration(&c.LegacyServiceAccountTokenCleaner.CleanUpPeriod, 365*24*time.Hour)
}

func setValue[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func setDuration(field **metav1.Duration, value time.Duration) {
	setValue(field, metav1.Duration{Duration: value})
}

func setString(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// setList leaves an explicitly empty list alone: `alwaysAllowPaths: []` means none.
func setList(field *[]string, values ...string) {
	if *field == nil {
		*field = values
	}
}

// DeepCopy returns a copy that shares no memory with cfg. It goes through JSON,
// which is meant for the few copies a reload makes.
func (cfg *KubeControllerManagerConfiguration) DeepCopy() *KubeControllerManagerConfiguration {
	data, err := json.Marshal(cfg)
	if err != nil {
		panic(fmt.Sprintf("marshalling a configuration: %v", err)) // no field of the types can fail to marshal
	}
	out := &KubeControllerManagerConfiguration{}
	if err := json.Unmarshal(data, out); err != nil {
		panic(fmt.Sprintf("unmarshalling a marshalled configuration: %v", err))
	}
	return out
}

// EffectiveBurst returns burst, or twice qps rounded up when burst is not set.
func (c *ClientConnection) EffectiveBurst() int {
	if c.Burst != nil && *c.Burst > 0 {
		return int(*c.Burst)
	}
	if c.QPS == nil {
		return 0
	}
	return int(math.Min(math.Ceil(float64(*c.QPS)*2), math.MaxInt32))
}
