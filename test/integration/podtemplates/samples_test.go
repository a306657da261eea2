package podtemplates

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// sample is a pod template that shows one field.
//
//  1. There is one for each place where a struct can stand, spec.containers[].livenessProbe
//     for example, in which everything is unset that may be; and one for each field in it
//     that holds no struct.
//  2. The places and fields are found by reflection, so that those that a new version of
//     the API adds are covered without anybody thinking of it.
//  3. What the API server demands beside the field comes from requiredValues and complete;
//     values other than the plainest of a type from sampleValues.
type sample struct {
	path     string
	template corev1.PodTemplateSpec
}

// opaque are structs that are not looked into: they are values, or have no defaults.
var opaque = map[reflect.Type]bool{
	reflect.TypeFor[metav1.ObjectMeta]():  true,
	reflect.TypeFor[metav1.Time]():        true,
	reflect.TypeFor[resource.Quantity]():  true,
	reflect.TypeFor[intstr.IntOrString](): true,
}

// samples makes all samples.
func samples() []sample {
	var s sampler
	s.places(reflect.TypeFor[corev1.PodTemplateSpec](), nil)
	return s.made
}

type sampler struct {
	made []sample
}

// places adds the samples of a struct that is reached by the steps, names of fields.
func (s *sampler) places(of reflect.Type, steps []string) {
	s.add(steps, nil)
	for i := range of.NumField() {
		field := of.Field(i)
		next := append(steps[:len(steps):len(steps)], field.Name)
		held := structIn(field.Type)
		switch {
		case held == nil && field.Type != reflect.TypeFor[metav1.ObjectMeta]():
			s.add(next, valueOf(of.Name()+"."+field.Name, field.Type))
		case held != nil && under(refusedFields, strings.Join(next, ".")):
			s.add(next, nil)
		case held != nil:
			s.places(held, next)
		}
	}
}

// add makes a sample in which the steps lead to something: a value, or an empty struct.
func (s *sampler) add(steps []string, value any) {
	var t corev1.PodTemplateSpec
	at := reflect.ValueOf(&t).Elem()
	for _, step := range steps {
		at = structAt(at).FieldByName(step)
	}
	if value != nil {
		set(at, value)
	} else {
		structAt(at)
	}
	completeAll(reflect.ValueOf(&t))
	completeTemplate(&t)
	s.made = append(s.made, sample{strings.Join(steps, "."), t})
}

// set gives a field, or what it points to or lists, a value.
func set(field reflect.Value, value any) {
	v := reflect.ValueOf(value)
	switch {
	case v.Type().ConvertibleTo(field.Type()):
		field.Set(v.Convert(field.Type()))
	case field.Kind() == reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
		set(field.Elem(), value)
	default:
		field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		set(field.Index(0), value)
	}
}

// structIn is the struct that a field is, points to or lists; nil if there is none to look into.
func structIn(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || opaque[t] {
		return nil
	}
	return t
}

// structAt returns the struct in a value, made if there is none.
func structAt(v reflect.Value) reflect.Value {
	for {
		switch v.Kind() {
		case reflect.Pointer:
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		case reflect.Slice:
			if v.Len() == 0 {
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			}
			v = v.Index(0)
		default:
			return v
		}
	}
}

// reaches reports that the steps lead to something in a template.
func reaches(t *corev1.PodTemplateSpec, steps string) bool {
	v := reflect.ValueOf(t).Elem()
	for step := range strings.SplitSeq(steps, ".") {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice {
			if v.IsZero() {
				return false
			}
			if v.Kind() == reflect.Slice {
				v = v.Index(0)
			} else {
				v = v.Elem()
			}
		}
		if step != "" {
			v = v.FieldByName(step)
		}
	}
	return v.Kind() == reflect.Struct || !v.IsZero()
}

// valueOf is a value for a field, given as Type.Field.
func valueOf(name string, t reflect.Type) any {
	for _, values := range []map[string]any{sampleValues, requiredValues} {
		if value, ok := values[name]; ok {
			return value
		}
	}
	return plainest(name, t)
}

func plainest(name string, t reflect.Type) any {
	v := reflect.New(t).Elem()
	switch {
	case t == reflect.TypeFor[intstr.IntOrString]():
		return intstr.FromInt32(1)
	case t == reflect.TypeFor[resource.Quantity]():
		return resource.MustParse("1.0001")
	case t == reflect.TypeFor[corev1.ResourceList]():
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1.0001")}
	}
	switch t.Kind() {
	case reflect.String:
		v.SetString("a")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		set(v, plainest(name, t.Elem()))
	case reflect.Slice:
		set(v, plainest(name, t.Elem()))
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(reflect.ValueOf("a").Convert(t.Key()), reflect.ValueOf(plainest(name, t.Elem())).Convert(t.Elem()))
	default:
		panic(fmt.Sprintf("there is no sample of a %s for %s", t, name))
	}
	return v.Interface()
}

// completeAll completes every struct in a value, the outer ones first.
func completeAll(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			completeAll(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			completeAll(v.Index(i))
		}
	case reflect.Struct:
		if opaque[v.Type()] {
			return
		}
		complete(v.Addr().Interface())
		for i := range v.NumField() {
			if value, ok := requiredValues[v.Type().Name()+"."+v.Type().Field(i).Name]; ok && v.Field(i).IsZero() {
				set(v.Field(i), value)
			}
			completeAll(v.Field(i))
		}
	}
}
