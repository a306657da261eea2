package v1beta1

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func ptr[T any](value T) *T { return &value }

func TestSetDefaultsKeepsWhatIsSet(t *testing.T) {
	cfg := &KubeControllerManagerConfiguration{}
	cfg.LeaderElection.LeaderElect = ptr(false)
	cfg.Serving.Port = ptr[int32](0)
	cfg.Serving.Authorization.AlwaysAllowPaths = []string{}
	cfg.Controllers.Namespace.ResyncPeriod = &metav1.Duration{}
	SetDefaults(cfg)
	if *cfg.LeaderElection.LeaderElect || *cfg.Serving.Port != 0 || len(cfg.Serving.Authorization.AlwaysAllowPaths) != 0 ||
		cfg.Controllers.Namespace.ResyncPeriod.Duration != 0 {
		t.Errorf("SetDefaults replaced a value that is set: %+v", cfg)
	}
	if cfg.APIVersion != "" || cfg.Kind != "" {
		t.Error("SetDefaults set apiVersion or kind")
	}
	again := cfg.DeepCopy()
	SetDefaults(again)
	if diff := cmp.Diff(cfg, again); diff != "" {
		t.Errorf("SetDefaults is not idempotent (-once +twice):\n%s", diff)
	}
}

func TestDeepCopySharesNothing(t *testing.T) {
	cfg := NewDefault()
	cfg.FeatureGates = map[string]bool{"A": true}
	copied := cfg.DeepCopy()
	cfg.FeatureGates["A"] = false
	*cfg.Serving.Port = 1
	cfg.Serving.Authorization.AlwaysAllowPaths[0] = "/x"
	if !copied.FeatureGates["A"] || *copied.Serving.Port != 10257 || copied.Serving.Authorization.AlwaysAllowPaths[0] != "/healthz" {
		t.Errorf("the copy changed with the original: %+v", copied)
	}
}

func TestControllerEnabledInherits(t *testing.T) {
	const name = "deployment-controller"
	tests := []struct {
		defaults, own *bool
		want          bool
	}{
		{nil, nil, true}, {ptr(true), nil, true}, {ptr(false), nil, false},
		{ptr(false), ptr(true), true}, {ptr(true), ptr(false), false},
	}
	for _, test := range tests {
		cfg := &KubeControllerManagerConfiguration{}
		cfg.ControllerDefaults.Enabled = test.defaults
		cfg.Controllers.Deployment.Enabled = test.own
		if got := cfg.ControllerEnabled(name); got != test.want {
			t.Errorf("ControllerEnabled = %t, want %t", got, test.want)
		}
	}
}

// Controllers that are off by default follow their own blocks only.
func TestControllersOffByDefault(t *testing.T) {
	off := map[string]bool{}
	cfg := NewDefault()
	cfg.ControllerDefaults.Enabled = ptr(true)
	for _, c := range cfg.Controllers.All() {
		if !cfg.ControllerEnabled(c.Name) {
			off[c.Name] = true
		}
	}
	want := map[string]bool{
		"bootstrap-signer-controller": true, "token-cleaner-controller": true, "selinux-warning-controller": true,
		"cloud-node-controller": true, "cloud-node-lifecycle-controller": true, "service-lb-controller": true, "node-route-controller": true,
	}
	if diff := cmp.Diff(want, off); diff != "" {
		t.Errorf("off by default (-want +got):\n%s", diff)
	}
	cfg.Controllers.TokenCleaner.Enabled = ptr(true)
	if !cfg.ControllerEnabled("token-cleaner-controller") {
		t.Error("a controller that is off by default is not enabled by its block")
	}
}

// The defaults are those that a kube-controller-manager without flags has
// (docs/specs/config-fields.md), also where its help text says something else.
func TestDefaultsAreUpstreams(t *testing.T) {
	c := NewDefault().Controllers
	for name, test := range map[string]struct{ got, want any }{
		"mirroring endpoints":     {*c.EndpointSliceMirroring.MaxEndpointsPerSubset, int32(1000)},
		"device taint eviction":   {*c.DeviceTaintEviction.ConcurrentSyncs, int32(8)},
		"resource claims":         {*c.ResourceClaim.ConcurrentSyncs, int32(50)},
		"daemon sets":             {*c.DaemonSet.ConcurrentSyncs, int32(2)},
		"garbage collector":       {*c.GarbageCollector.ConcurrentSyncs, int32(20)},
		"eviction rate":           {*c.NodeLifecycle.NodeEvictionRate, float32(0.1)},
		"secondary eviction rate": {*c.NodeLifecycle.SecondaryNodeEvictionRate, float32(0.01)},
		"large cluster":           {*c.NodeLifecycle.LargeClusterSizeThreshold, int32(50)},
		"unhealthy zone":          {*c.NodeLifecycle.UnhealthyZoneThreshold, float32(0.55)},
		"node grace":              {c.NodeLifecycle.NodeMonitorGracePeriod.Duration, 50 * time.Second},
		"recycler nfs":            {c.PersistentVolumeBinder.Recycler.NFS.MinimumTimeout.Duration, 300 * time.Second},
		"recycler hostPath":       {c.PersistentVolumeBinder.Recycler.HostPath.MinimumTimeout.Duration, 60 * time.Second},
		"signing duration":        {c.CSRSigning.CertificateDuration.Duration, 8760 * time.Hour},
		"token clean-up":          {c.LegacyServiceAccountTokenCleaner.CleanUpPeriod.Duration, 8760 * time.Hour},
		"attach detach":           {c.PersistentVolumeAttachDetach.ReconcilerSyncPeriod.Duration, time.Minute},
		"binder":                  {c.PersistentVolumeBinder.SyncPeriod.Duration, 15 * time.Second},
	} {
		if test.got != test.want {
			t.Errorf("%s: default %v, want %v", name, test.got, test.want)
		}
	}
}

func TestResyncPeriodInherits(t *testing.T) {
	cfg := NewDefault()
	if period, inherited := cfg.ResyncPeriod(cfg.Controllers.Deployment.ResyncPeriod); period != 12*time.Hour || !inherited {
		t.Errorf("ResyncPeriod = %s, %t, want resync.minPeriod, inherited", period, inherited)
	}
	if period, inherited := cfg.ResyncPeriod(cfg.Controllers.Namespace.ResyncPeriod); period != 5*time.Minute || inherited {
		t.Errorf("ResyncPeriod = %s, %t, want its own 5m", period, inherited)
	}
}

func TestEffectiveBurst(t *testing.T) {
	tests := []struct {
		qps   float32
		burst int32
		want  int
	}{{0, 0, 0}, {20, 30, 30}, {20, 0, 40}, {0.25, 0, 1}, {1_000_000, 0, 2_000_000}}
	for _, test := range tests {
		c := ClientConnection{QPS: &test.qps, Burst: &test.burst}
		if got := c.EffectiveBurst(); got != test.want {
			t.Errorf("EffectiveBurst of qps %g and burst %d = %d, want %d", test.qps, test.burst, got, test.want)
		}
	}
}
