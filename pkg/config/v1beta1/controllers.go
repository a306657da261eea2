package v1beta1

import (
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
}

// All returns the settings of every controller, in the order of the blocks. A
// new block must be added here; a test compares the names with the json keys.
func (c *Controllers) All() []NamedSettings {
	return []NamedSettings{
		{"serviceaccount-token-controller", &c.ServiceAccountToken.ControllerSettings, nil},
		{"serviceaccount-controller", &c.ServiceAccount.ControllerSettings, nil},
		{"root-ca-certificate-publisher-controller", &c.RootCACertificatePublisher.ControllerSettings, c.RootCACertificatePublisher.ResyncPeriod},
		{"namespace-controller", &c.Namespace.ControllerSettings, c.Namespace.ResyncPeriod},
		{"replicationcontroller-controller", &c.ReplicationController.ControllerSettings, c.ReplicationController.ResyncPeriod},
		{"replicaset-controller", &c.ReplicaSet.ControllerSettings, c.ReplicaSet.ResyncPeriod},
		{"deployment-controller", &c.Deployment.ControllerSettings, c.Deployment.ResyncPeriod},
		{"statefulset-controller", &c.StatefulSet.ControllerSettings, c.StatefulSet.ResyncPeriod},
		{"daemonset-controller", &c.DaemonSet.ControllerSettings, c.DaemonSet.ResyncPeriod},
		{"job-controller", &c.Job.ControllerSettings, c.Job.ResyncPeriod},
		{"cronjob-controller", &c.CronJob.ControllerSettings, c.CronJob.ResyncPeriod},
		{"ttl-after-finished-controller", &c.TTLAfterFinished.ControllerSettings, c.TTLAfterFinished.ResyncPeriod},
		{"disruption-controller", &c.Disruption.ControllerSettings, c.Disruption.ResyncPeriod},
		{"horizontal-pod-autoscaler-controller", &c.HorizontalPodAutoscaler.ControllerSettings, nil},
		{"pod-garbage-collector-controller", &c.PodGarbageCollector.ControllerSettings, nil},
		{"podgroup-protection-controller", &c.PodGroupProtection.ControllerSettings, c.PodGroupProtection.ResyncPeriod},
		{"garbage-collector-controller", &c.GarbageCollector.ControllerSettings, nil},
		{"endpoints-controller", &c.Endpoints.ControllerSettings, c.Endpoints.ResyncPeriod},
		{"endpointslice-controller", &c.EndpointSlice.ControllerSettings, c.EndpointSlice.ResyncPeriod},
		{"endpointslice-mirroring-controller", &c.EndpointSliceMirroring.ControllerSettings, c.EndpointSliceMirroring.ResyncPeriod},
	}
}

// ControllerEnabled says whether the controller of this canonical name is
// enabled: by its own block, else by controllerDefaults.enabled. It is false for
// a name that has no block.
func (cfg *KubeControllerManagerConfiguration) ControllerEnabled(name string) bool {
	for _, c := range cfg.Controllers.All() {
		if c.Name != name {
			continue
		}
		if c.Settings.Enabled != nil {
			return *c.Settings.Enabled
		}
		return cfg.ControllerDefaults.Enabled == nil || *cfg.ControllerDefaults.Enabled
	}
	return false
}

// ResyncPeriod is the resync period of a controller whose block says own: own if
// it is set, else resync.minPeriod. Zero means never. When inherited, the caller
// spreads it over [1,2) times the value.
func (cfg *KubeControllerManagerConfiguration) ResyncPeriod(own *metav1.Duration) (period time.Duration, inherited bool) {
	if own != nil {
		return own.Duration, false
	}
	if cfg.Resync.MinPeriod == nil {
		return 0, true
	}
	return cfg.Resync.MinPeriod.Duration, true
}
