package namespace

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins NS-1, NS-2, NS-3, NS-6, NS-7, NS-8 and NS-18.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	before := d.Value(cfg)
	if enabled, _ := d.Enabled(cfg); !enabled || d.Name != "namespace-controller" || !slices.Equal(d.Aliases, []string{"namespace"}) || d.ServiceAccount != d.Name || d.Gate != "" {
		t.Errorf("%+v", d)
	}
	if before.(config).concurrentSyncs != 10 || cfg.Controllers.Namespace.ResyncPeriod.Duration != 5*time.Minute {
		t.Errorf("%+v, resynced every %v", before, cfg.Controllers.Namespace.ResyncPeriod)
	}
	cfg.Controllers.Namespace.ResyncPeriod = &metav1.Duration{Duration: time.Second}
	if d.Value(cfg) != before {
		t.Error("a resync period restarts the controller")
	}
	workers := int32(3)
	cfg.Controllers.Namespace.ConcurrentSyncs = &workers
	c := must.Get(d.New(controllertest.New(t).Env, d.Value(cfg)))(t)
	if _, ok := c.(controller.Debuggable); ok {
		t.Error("it serves pages for debugging")
	}
	if got := c.(*namespaceController).loop.Inspect(); got.Workers != 3 || got.Queue != "namespace" {
		t.Errorf("loop = %+v", got)
	}
	if d.Limits.QPS != 20 || d.Limits.Burst != 100 {
		t.Errorf("limits = %+v", d.Limits)
	}
}

// Pins NS-9.
func TestAllNamespacesAreWatchedWithoutAnIndex(t *testing.T) {
	f := start(t, serving(), terminating(func(ns *corev1.Namespace) { ns.Labels = map[string]string{"a": "b"} }))
	informer := f.Env.Informers.Core().V1().Namespaces().Informer()
	if got := slices.Collect(maps.Keys(informer.GetIndexer().GetIndexers())); !slices.Equal(got, []string{cache.NamespaceIndex}) {
		t.Errorf("indexes are %q", got)
	}
	if got := informer.GetStore().ListKeys(); !slices.Equal(got, []string{"ns"}) {
		t.Errorf("cached are %q", got)
	}
}
