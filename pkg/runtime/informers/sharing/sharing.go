// Package sharing lets two values use the same memory for parts that are equal. API objects that were decoded one by
// one each have their own copy of the same labels, resources and strings.
//
//  1. A part is what a pointer, slice, map or string refers to. Parts are compared at the same place of both values,
//     and elements of slices at the same index.
//  2. Equal is exact, so that an object with shared parts can be written back: nil and empty differ, and so do
//     quantities in different formats. A time is equal to the same instant.
//  3. Only values that nobody changes may share: a change of one would be a change of the other.
//  4. Structs with fields that are not exported count as equal only if all of their bytes are, besides quantities and
//     times.
package sharing

import (
	"maps"
	"reflect"
	"sync"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Func replaces each part of own that is equal to the same part of other by the latter. It reports whether the whole
// values are equal.
type Func[T any] func(own, other *T) bool

// Of returns the Func of a type.
func Of[T any]() Func[T] {
	p := planOf(reflect.TypeFor[T]())
	return func(own, other *T) bool { return p.share(unsafe.Pointer(own), unsafe.Pointer(other)) }
}

// plan is how values of one type are shared.
type plan struct {
	// share is a Func of pointers to two values of the type.
	share func(own, other unsafe.Pointer) bool
}

// plans has the plans of all types seen so far.
var plans struct {
	sync.Mutex
	byType map[reflect.Type]*plan
}

func planOf(t reflect.Type) *plan {
	plans.Lock()
	defer plans.Unlock()
	if plans.byType == nil {
		plans.byType = map[reflect.Type]*plan{}
	}
	return planLocked(t)
}

// planLocked returns the plan of a type. A type that contains itself finds the plan that is being made.
func planLocked(t reflect.Type) *plan {
	if p, found := plans.byType[t]; found {
		return p
	}
	p := &plan{}
	plans.byType[t] = p
	p.share = compile(t)
	return p
}

func compile(t reflect.Type) func(own, other unsafe.Pointer) bool {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return ofQuantities
	case reflect.TypeFor[time.Time]():
		return ofTimes
	case reflect.TypeFor[map[string]string]():
		return ofStringMaps
	case reflect.TypeFor[corev1.ResourceList]():
		return ofResources
	}
	switch t.Kind() {
	case reflect.Struct:
		return ofStructs(t)
	case reflect.Pointer:
		return ofPointers(planLocked(t.Elem()))
	case reflect.Slice:
		return ofSlices(t.Elem().Size(), planLocked(t.Elem()))
	case reflect.String:
		return ofStrings
	case reflect.Map:
		return ofMaps(t)
	case reflect.Interface:
		return ofInterfaces(t)
	default:
		size := t.Size()
		return func(own, other unsafe.Pointer) bool { return identical(own, other, size) }
	}
}

// identical reports whether two values consist of the same bytes: they are equal, and share all that they refer to.
// Equal values in different memory are not identical.
func identical(own, other unsafe.Pointer, size uintptr) bool {
	return unsafe.String((*byte)(own), size) == unsafe.String((*byte)(other), size)
}

func ofStrings(own, other unsafe.Pointer) bool {
	a, b := (*string)(own), (*string)(other)
	if *a != *b {
		return false
	}
	*a = *b
	return true
}

// field is a field of a struct.
type field struct {
	offset uintptr
	*plan
}

func ofStructs(t reflect.Type) func(own, other unsafe.Pointer) bool {
	size := t.Size()
	fields := make([]field, t.NumField())
	for i := range fields {
		f := t.Field(i)
		if !f.IsExported() {
			return func(own, other unsafe.Pointer) bool { return identical(own, other, size) }
		}
		fields[i] = field{f.Offset, planLocked(f.Type)}
	}
	return func(own, other unsafe.Pointer) bool {
		if identical(own, other, size) {
			return true
		}
		same := true
		for _, f := range fields {
			same = f.share(unsafe.Add(own, f.offset), unsafe.Add(other, f.offset)) && same
		}
		return same
	}
}

func ofPointers(elem *plan) func(own, other unsafe.Pointer) bool {
	return func(own, other unsafe.Pointer) bool {
		a, b := (*unsafe.Pointer)(own), (*unsafe.Pointer)(other)
		if *a == *b {
			return true
		}
		if *a == nil || *b == nil || !elem.share(*a, *b) {
			return false
		}
		*a = *b
		return true
	}
}

// slice is what the runtime keeps of a slice.
type slice struct {
	data     unsafe.Pointer
	len, cap int
}

func ofSlices(size uintptr, elem *plan) func(own, other unsafe.Pointer) bool {
	return func(own, other unsafe.Pointer) bool {
		a, b := (*slice)(own), (*slice)(other)
		same := a.len == b.len && (a.data == nil) == (b.data == nil)
		if same && a.data == b.data {
			return true
		}
		for i := range min(a.len, b.len) {
			at := uintptr(i) * size
			same = elem.share(unsafe.Add(a.data, at), unsafe.Add(b.data, at)) && same
		}
		if same {
			*a = *b
		}
		return same
	}
}

func ofStringMaps(own, other unsafe.Pointer) bool {
	return ofMapsThat(own, other, maps.Equal[map[string]string, map[string]string])
}

func ofResources(own, other unsafe.Pointer) bool {
	return ofMapsThat(own, other, func(a, b corev1.ResourceList) bool {
		return maps.EqualFunc(a, b, func(a, b resource.Quantity) bool { return equalQuantities(&a, &b) })
	})
}

// ofMapsThat shares maps that are equal. What a map contains is not shared on its own.
func ofMapsThat[M ~map[K]V, K comparable, V any](own, other unsafe.Pointer, equal func(a, b M) bool) bool {
	a, b := (*M)(own), (*M)(other)
	if (*a == nil) != (*b == nil) || !equal(*a, *b) {
		return false
	}
	*a = *b
	return true
}

func ofMaps(t reflect.Type) func(own, other unsafe.Pointer) bool {
	return func(own, other unsafe.Pointer) bool {
		a, b := reflect.NewAt(t, own).Elem(), reflect.NewAt(t, other).Elem()
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			return false
		}
		a.Set(b)
		return true
	}
}

// ofInterfaces shares nothing: objects in API objects are kept as bytes.
func ofInterfaces(t reflect.Type) func(own, other unsafe.Pointer) bool {
	return func(own, other unsafe.Pointer) bool {
		return reflect.NewAt(t, own).Elem().IsNil() && reflect.NewAt(t, other).Elem().IsNil()
	}
}

func ofQuantities(own, other unsafe.Pointer) bool {
	return equalQuantities((*resource.Quantity)(own), (*resource.Quantity)(other))
}

func equalQuantities(a, b *resource.Quantity) bool { return a.Format == b.Format && a.Cmp(*b) == 0 }

func ofTimes(own, other unsafe.Pointer) bool {
	return (*time.Time)(own).Equal(*(*time.Time)(other))
}
