package decode

import (
	"reflect"
	"strings"
)

// structFields are the fields of a struct by their json names.
type structFields struct {
	names []string
	types map[string]reflect.Type
}

// jsonFields lists the fields that encoding/json knows, embedded ones included.
func jsonFields(t reflect.Type) structFields {
	out := structFields{types: map[string]reflect.Type{}}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			inner := jsonFields(f.Type)
			out.names = append(out.names, inner.names...)
			for n, ft := range inner.types {
				out.types[n] = ft
			}
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name // upstream's v1alpha1 has no tags
		}
		out.names = append(out.names, name)
		out.types[name] = f.Type
	}
	return out
}

func firstField(t reflect.Type) string {
	if names := jsonFields(t).names; len(names) > 0 {
		return names[0]
	}
	return "none"
}

// pathsOf lists the paths of all fields with a name in a type, whose own path is given.
func pathsOf(name string, t reflect.Type, path string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			path += "[]"
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == durationType || t == logDurationType || t == quantityType {
		return nil
	}
	var out []string
	fields := jsonFields(t)
	for _, field := range fields.names {
		at := strings.TrimPrefix(path+"."+field, ".")
		if strings.EqualFold(field, name) {
			out = append(out, at)
		}
		out = append(out, pathsOf(name, fields.types[field], at)...)
	}
	return out
}
