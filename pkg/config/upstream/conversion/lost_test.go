package conversion

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kcmd.dev/pkg/config/v1beta1"
)

func TestWhatV1alpha1CannotCarry(t *testing.T) {
	cfg := v1beta1.NewDefault()
	if fields := lost(t, cfg); len(fields) > 0 {
		t.Errorf("of the defaults %v", fields)
	}
	cfg.Serving.BindAddress = "127.0.0.1"
	cfg.Logging.Verbosity = 4
	cfg.FeatureGates = map[string]bool{"GenericWorkload": true}
	if diff := cmp.Diff([]string{"featureGates.GenericWorkload", "logging.verbosity", "serving.bindAddress"}, lost(t, cfg)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// lost are the fields of a defaulted configuration that v1alpha1 cannot carry: those that
// are different after going there and back, sorted.
func lost(t *testing.T, cfg *v1beta1.KubeControllerManagerConfiguration) []string {
	t.Helper()
	back, err := ToHub(FromHub(cfg))
	if err != nil {
		t.Fatalf("converting %+v: %v", cfg, err)
	}
	before, err := toMap(cfg)
	if err != nil {
		t.Fatal(err)
	}
	after, err := toMap(back.Config)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	differences(before, after, "", &out)
	slices.Sort(out)
	return out
}

// differences lists the leaves that differ; a list is a leaf.
func differences(a, b any, path string, out *[]string) {
	left, leftIsMap := a.(map[string]any)
	right, rightIsMap := b.(map[string]any)
	if !leftIsMap && !rightIsMap {
		if !reflect.DeepEqual(a, b) {
			*out = append(*out, path)
		}
		return
	}
	names := map[string]bool{}
	for name := range left {
		names[name] = true
	}
	for name := range right {
		names[name] = true
	}
	for name := range names {
		at := name
		if path != "" {
			at = path + "." + name
		}
		differences(left[name], right[name], at, out)
	}
}
