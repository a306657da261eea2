package conversion

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var durationType = reflect.TypeFor[metav1.Duration]()

// Lookup returns the field of a configuration, given by pointer, at a path of json
// names. It panics if there is none: paths come from the table, which is tested.
func Lookup(configuration any, path string) reflect.Value {
	value := reflect.ValueOf(configuration).Elem()
	for name := range strings.SplitSeq(path, ".") {
		next, ok := fieldByName(value, name)
		if !ok {
			panic(fmt.Sprintf("%T has no field %s (%s)", configuration, path, name))
		}
		value = next
	}
	return value
}

// fieldByName finds a field by the name it has in JSON.
func fieldByName(value reflect.Value, name string) (reflect.Value, bool) {
	if value.Kind() != reflect.Struct {
		return reflect.Value{}, false
	}
	for i := range value.NumField() {
		field := value.Type().Field(i)
		tag, inline := JSONName(field)
		if inline {
			if inner, ok := fieldByName(value.Field(i), name); ok {
				return inner, true
			}
			continue
		}
		if tag == name {
			return value.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// JSONName is the name of a struct field in JSON; inline is set if the fields of the field
// are those of the struct itself.
func JSONName(field reflect.StructField) (name string, inline bool) {
	name, _, _ = strings.Cut(field.Tag.Get("json"), ",")
	if name == "" && field.Anonymous {
		return "", true
	}
	if name == "" {
		return field.Name, false
	}
	return name, false
}

// copyValue sets a field of one version from that of the other: either may be a
// pointer, a duration may be a number of seconds. ok is false if from is not set.
func copyValue(to, from reflect.Value, row Row) (ok bool) {
	if from.Kind() == reflect.Pointer {
		if from.IsNil() {
			return false
		}
		from = from.Elem()
	}
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	switch {
	case row.Opposite:
		to.SetBool(!from.Bool())
	case from.Type() == durationType && to.Type() != durationType:
		d := from.Interface().(metav1.Duration)
		to.SetInt(int64((d.Duration + time.Second - 1) / time.Second))
	case from.Type() != durationType && to.Type() == durationType:
		to.Set(reflect.ValueOf(metav1.Duration{Duration: time.Duration(from.Int()) * time.Second}))
	default:
		to.Set(from.Convert(to.Type()))
	}
	if row.NegativeIsZero && negative(to) {
		to.SetZero()
	}
	return true
}

func negative(value reflect.Value) bool {
	switch {
	case value.Type() == durationType:
		return value.Interface().(metav1.Duration).Duration < 0
	case value.CanInt():
		return value.Int() < 0
	}
	return false
}
