package conversion

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"kcmd.dev/pkg/config/v1beta1"
)

// Lost returns the fields of a defaulted configuration that v1alpha1 cannot carry:
// those that are different after going there and back, sorted.
func Lost(cfg *v1beta1.KubeControllerManagerConfiguration, build Build) ([]string, error) {
	back, err := ToHub(FromHub(cfg), build)
	if err != nil {
		return nil, fmt.Errorf("reading back what was converted: %w", err)
	}
	before, err := toMap(cfg)
	if err != nil {
		return nil, err
	}
	after, err := toMap(back.Config)
	if err != nil {
		return nil, err
	}
	var out []string
	differences(before, after, "", &out)
	slices.Sort(out)
	return out, nil
}

func toMap(cfg *v1beta1.KubeControllerManagerConfiguration) (map[string]any, error) {
	data, err := json.Marshal(cfg)
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("reading back the encoded configuration: %w", err)
	}
	return out, nil
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
