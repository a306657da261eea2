package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"kcmd.dev/pkg/config/v1beta1"
)

// Change is one field that differs between two configurations.
type Change struct {
	// Path is the field.
	Path string `json:"path"`
	// Old and New are its values as in JSON; nil means that it is not set. A list
	// is one value.
	Old any `json:"old,omitempty"`
	New any `json:"new,omitempty"`

	keys []string
}

// String renders the change as `path: old → new`.
func (c Change) String() string {
	return fmt.Sprintf("%s: %s → %s", c.Path, formatValue(c.Old), formatValue(c.New))
}

func formatValue(value any) string {
	switch v := value.(type) {
	case nil:
		return "(not set)"
	case string:
		if v == "" || strings.ContainsAny(v, " \t\n") {
			return fmt.Sprintf("%q", v)
		}
		if d, ok := asDuration(v); ok {
			return v1beta1.FormatDuration(d)
		}
		return v
	case float64:
		return formatNumber(v)
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = formatValue(item)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		data, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprint(v)
		}
		return string(data)
	}
	return fmt.Sprint(value)
}

// object is a configuration as JSON sees it.
type object map[string]any

func toObject(cfg *v1beta1.KubeControllerManagerConfiguration) object {
	data, err := json.Marshal(cfg)
	if err != nil {
		panic(fmt.Sprintf("marshalling a configuration: %v", err)) // no field of the types can fail to marshal
	}
	out := object{}
	if err := json.Unmarshal(data, &out); err != nil {
		panic(fmt.Sprintf("reading back a marshalled configuration: %v", err))
	}
	return out
}

// with returns a copy in which the field has the value; nil removes the field.
func (o object) with(keys []string, value any) object {
	out := maps.Clone(o)
	if out == nil {
		out = object{}
	}
	if len(keys) == 1 {
		if value == nil {
			delete(out, keys[0])
		} else {
			out[keys[0]] = value
		}
		return out
	}
	inner, _ := out[keys[0]].(map[string]any)
	out[keys[0]] = map[string]any(object(inner).with(keys[1:], value))
	return out
}

// changedLeaves lists every field that differs, sorted by path.
func changedLeaves(before, after object) []Change {
	var out []Change
	collectChanges(before, after, nil, &out)
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}

func collectChanges(before, after any, keys []string, out *[]Change) {
	oldMap, oldIsMap := before.(map[string]any)
	newMap, newIsMap := after.(map[string]any)
	if o, ok := before.(object); ok {
		oldMap, oldIsMap = o, true
	}
	if o, ok := after.(object); ok {
		newMap, newIsMap = o, true
	}
	if !oldIsMap && !newIsMap {
		if !reflect.DeepEqual(before, after) {
			*out = append(*out, Change{Path: pathOf(keys), Old: before, New: after, keys: keys})
		}
		return
	}
	names := map[string]bool{}
	for name := range oldMap {
		names[name] = true
	}
	for name := range newMap {
		names[name] = true
	}
	for name := range names {
		collectChanges(oldMap[name], newMap[name], append(slices.Clone(keys), name), out)
	}
}

func pathOf(keys []string) string {
	path := ""
	for _, key := range keys {
		path = join(path, key)
	}
	return path
}
