package diff

import (
	"reflect"
	"strings"

	"kcmd.dev/pkg/config/v1beta1"
)

// Mix returns base with the changed fields as they are in other. It shares memory with both,
// so it must not be changed.
//
// It copies typed values instead of going through JSON, because a Plan needs two mixtures
// for each changed field.
func Mix(
	base, other *v1beta1.KubeControllerManagerConfiguration, changes ...Change,
) *v1beta1.KubeControllerManagerConfiguration {
	out := *base
	for _, change := range changes {
		Take(&out, other, change.keys)
	}
	return &out
}

// Take sets a field of into to that of from. It replaces what into shares with the
// configuration that it was copied from, and leaves that as it is.
func Take(into, from *v1beta1.KubeControllerManagerConfiguration, keys []string) {
	copyField(reflect.ValueOf(into).Elem(), reflect.ValueOf(from).Elem(), keys)
}

// copyField sets the field of into to that of from. Blocks are held by value, so setting one
// of their fields does not touch the configuration that into was copied from; maps are
// copied first.
func copyField(into, from reflect.Value, keys []string) {
	if len(keys) == 0 {
		into.Set(from)
		return
	}
	switch into.Kind() {
	case reflect.Struct:
		index := fieldIndex(into.Type(), keys[0])
		if index == nil {
			return // a field of JSON that the type writes as a whole, such as a quantity
		}
		copyField(into.FieldByIndex(index), from.FieldByIndex(index), keys[1:])
	case reflect.Map:
		copyEntry(into, from, reflect.ValueOf(keys[0]))
	default:
		into.Set(from)
	}
}

// copyEntry sets or removes one entry of a map.
func copyEntry(into, from, key reflect.Value) {
	clone := reflect.MakeMap(into.Type())
	for _, k := range into.MapKeys() {
		clone.SetMapIndex(k, into.MapIndex(k))
	}
	clone.SetMapIndex(key, from.MapIndex(key)) // the zero Value of a missing entry removes it
	if clone.Len() == 0 {
		clone = reflect.Zero(into.Type())
	}
	into.Set(clone)
}

// fieldIndex finds the field that encoding/json calls name, also in embedded structs.
func fieldIndex(t reflect.Type, name string) []int {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name && f.IsExported() {
			return f.Index
		}
		if f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct {
			if inner := fieldIndex(f.Type, name); inner != nil {
				return append([]int{i}, inner...)
			}
		}
	}
	return nil
}
