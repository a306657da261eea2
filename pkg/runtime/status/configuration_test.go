package status

import (
	"testing"

	"kcmd.dev/pkg/config/v1beta1"
)

// The flags of the process are those that it was started with.
func TestFlags(t *testing.T) {
	c := v1beta1.NewDefault()
	for _, lastGood := range []string{"", "/lib"} {
		all := Flags("config.yaml", lastGood, c)
		if got, set := all["last-good"]; all["config"] != "config.yaml" || got != lastGood || set != (lastGood != "") {
			t.Errorf("config is %q, last-good %q, %t", all["config"], got, set)
		}
	}
}

func TestFlatten(t *testing.T) {
	got := map[string]string{}
	flatten("", map[string]any{"a": map[string]any{"b": "x", "c": true, "d": []any{"y", "z"}}, "e": nil, "f": 1.5}, got)
	want := map[string]string{"a.b": "x", "a.c": "true", "a.d": `["y","z"]`, "e": "null", "f": "1.5"}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for path, value := range want {
		if got[path] != value {
			t.Errorf("%s is %q, want %q", path, got[path], value)
		}
	}
}
