package gates

import (
	"bytes"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"kcmd.dev/pkg/config/v1beta1"
)

// Pins MGR-113 and MGR-114.
func TestEnabled(t *testing.T) {
	tests := []struct {
		name    string
		version string
		set     map[string]bool
		want    bool
	}{
		{"HPAConfigurableTolerance", "", nil, true},
		{"HPAConfigurableTolerance", "1.36", nil, true},
		{"HPAConfigurableTolerance", "1.35", nil, true},
		{"HPAConfigurableTolerance", "1.34", nil, false},
		{"HPAConfigurableTolerance", "1.34", map[string]bool{"AllAlpha": true}, true},
		{"HPAConfigurableTolerance", "1.36", map[string]bool{"AllAlpha": true, "AllBeta": false}, false},
		{"HPAConfigurableTolerance", "1.36", map[string]bool{"AllBeta": false, "HPAConfigurableTolerance": true}, true},
		{"HPAScaleToZero", "1.36", map[string]bool{"AllAlpha": true}, true},
		{"HPAScaleToZero", "1.36", map[string]bool{"AllAlpha": true, "HPAScaleToZero": false}, false},
		{"GenericWorkload", "1.34", map[string]bool{"AllAlpha": true, "GenericWorkload": true}, false}, // since 1.35
		{"OrderedNamespaceDeletion", "1.36", map[string]bool{"OrderedNamespaceDeletion": false}, true}, // locked
		{"OrderedNamespaceDeletion", "1.33", map[string]bool{"OrderedNamespaceDeletion": false}, false},
		{"InformerResourceVersion", "1.34", nil, false},
		{"InformerResourceVersion", "1.35", nil, true},
		{"Foo", "1.36", map[string]bool{"Foo": true}, false},
		{"AllAlpha", "1.36", nil, false},
	}
	for _, test := range tests {
		cfg := &v1beta1.KubeControllerManagerConfiguration{EmulatedVersion: test.version, FeatureGates: test.set}
		if got := Enabled(cfg, test.name); got != test.want {
			t.Errorf("Enabled(%s) at version %q with %v = %t, want %t", test.name, test.version, test.set, got, test.want)
		}
	}
}

// Every gate that is said to be read is a gate.
func TestGatesReadAreKnown(t *testing.T) {
	for _, name := range Read() {
		if gate, ok := gateTables().at(NewestMinor)[name]; !ok || !gate.Read {
			t.Errorf("%s is not in the table, or not marked as read", name)
		}
	}
}

func BenchmarkEnabled(b *testing.B) {
	cfg := v1beta1.NewDefault()
	for b.Loop() {
		Enabled(cfg, WorkloadWithJob)
	}
}

// A configuration that is read, and may be rejected, updates no gates: nothing is logged about it.
func TestGatesOfLoggingAreNotLogged(t *testing.T) {
	var log bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log), textlogger.Verbosity(9)))
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	t.Cleanup(klog.ClearLogger)
	if _, err := Logging(v1beta1.NewDefault()); err != nil || log.Len() > 0 {
		t.Errorf("%v, and it is logged: %s", err, &log)
	}
}
