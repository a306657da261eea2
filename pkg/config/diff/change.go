// Package diff computes the fields in which two configurations differ, and builds
// configurations that differ in some of them only.
package diff

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/scalar"
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
	// Note says what the change does not do although one could expect it, or the reverse.
	// Most changes have none.
	Note string `json:"note,omitempty"`

	keys []string
}

// Keys returns the parts of the path.
func (c Change) Keys() []string { return c.keys }

// String renders the change as `path: old → new`, and the note in parentheses.
func (c Change) String() string {
	text := fmt.Sprintf("%s: %s → %s", c.Path, formatValue(c.Old), formatValue(c.New))
	if c.Note != "" {
		text += " (" + c.Note + ")"
	}
	return text
}

func formatValue(value any) string {
	switch v := value.(type) {
	case nil:
		return "(not set)"
	case string:
		if v == "" || strings.ContainsFunc(v, func(r rune) bool { return r == ' ' || !strconv.IsPrint(r) }) {
			return fmt.Sprintf("%q", v)
		}
		if d, ok := scalar.Duration(v); ok {
			return v1beta1.FormatDuration(d)
		}
		return v
	case float64:
		return scalar.FormatNumber(v)
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

// Object is a configuration as JSON sees it.
type Object map[string]any

// ObjectOf returns a configuration as JSON.
func ObjectOf(cfg *v1beta1.KubeControllerManagerConfiguration) Object {
	data, err := json.Marshal(cfg)
	if err != nil {
		panic(fmt.Sprintf("marshalling a configuration: %v", err)) // no field of the types can fail to marshal
	}
	out := Object{}
	if err := json.Unmarshal(data, &out); err != nil {
		panic(fmt.Sprintf("reading back a marshalled configuration: %v", err))
	}
	return out
}

// Config returns the configuration that an object holds, without adding defaults.
func (o Object) Config() (*v1beta1.KubeControllerManagerConfiguration, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encoding the fields: %w", err)
	}
	cfg := &v1beta1.KubeControllerManagerConfiguration{}
	if err := json.Unmarshal(data, cfg); err != nil {
		return nil, fmt.Errorf("decoding the fields: %w", err)
	}
	return cfg, nil
}

// With returns a copy in which the field has the value; nil removes the field.
func (o Object) With(keys []string, value any) Object {
	out := maps.Clone(o)
	if out == nil {
		out = Object{}
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
	out[keys[0]] = map[string]any(Object(inner).With(keys[1:], value))
	return out
}

// Between lists every field that differs, sorted by path.
func Between(before, after *v1beta1.KubeControllerManagerConfiguration) []Change {
	return Of(ObjectOf(before), ObjectOf(after))
}

// maxEntries is how many entries of metrics.allowListMapping are changes of their own in Grouped. It is the only map
// whose size the configuration does not bound.
const maxEntries = 100

// Grouped is Between with one change for all of metrics.allowListMapping if many of its entries differ: whoever needs a
// mixture for each change would have a copy of the map for each of its entries.
func Grouped(before, after *v1beta1.KubeControllerManagerConfiguration) []Change {
	changes := Between(before, after)
	keys := []string{"metrics", "allowListMapping"}
	isEntry := func(c Change) bool { return len(c.keys) > len(keys) && slices.Equal(c.keys[:len(keys)], keys) }
	first := slices.IndexFunc(changes, isEntry)
	rest := slices.DeleteFunc(slices.Clone(changes), isEntry)
	if len(changes)-len(rest) <= maxEntries {
		return changes
	}
	whole := Change{Path: pathOf(keys), keys: keys}
	whole.Old, whole.New = mapping(before.Metrics.AllowListMapping), mapping(after.Metrics.AllowListMapping)
	return slices.Insert(rest, first, whole)
}

// mapping is a map as in JSON; nil if it is empty.
func mapping(in map[string]string) any {
	if len(in) == 0 {
		return nil
	}
	out := map[string]any{}
	for key, value := range in {
		out[key] = value
	}
	return out
}

// Of is Between for configurations as JSON.
func Of(before, after Object) []Change {
	var out []Change
	collect(before, after, nil, &out)
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}

func collect(before, after any, keys []string, out *[]Change) {
	oldMap, oldIsMap := before.(map[string]any)
	newMap, newIsMap := after.(map[string]any)
	if o, ok := before.(Object); ok {
		oldMap, oldIsMap = o, true
	}
	if o, ok := after.(Object); ok {
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
		collect(oldMap[name], newMap[name], append(slices.Clone(keys), name), out)
	}
}

func pathOf(keys []string) string {
	path := ""
	for _, key := range keys {
		path = fieldpath.Join(path, key)
	}
	return path
}
