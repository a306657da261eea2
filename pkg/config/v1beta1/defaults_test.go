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
