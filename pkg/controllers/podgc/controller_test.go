package podgc

import (
	"slices"
	"testing"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
)

// Pins PODGC-1.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if enabled, _ := d.Enabled(cfg); !enabled || d.Name != "pod-garbage-collector-controller" || !slices.Equal(d.Aliases, []string{"podgc"}) || d.ServiceAccount != "pod-garbage-collector" || d.Gate != "" {
		t.Errorf("%+v", d)
	}
	if d.Value(cfg) != (config{threshold: 12500}) {
		t.Errorf("value: %+v", d.Value(cfg))
	}
	if _, err := d.New(controllertest.New(t).Env, d.Value(cfg)); err != nil {
		t.Error(err)
	}
}
