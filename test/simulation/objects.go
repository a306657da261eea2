package simulation

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// All returns the stored objects of a kind.
func All[T runtime.Object](w *World) []T {
	var zero T
	resource, _ := kindOf(newOf(zero))
	st := w.server.of(resource)
	var all []T
	for _, name := range sortedNames(st.objects) {
		all = append(all, st.objects[name].(T))
	}
	return all
}

// Get returns a stored object, false if there is none.
func Get[T runtime.Object](w *World, namespace, name string) (T, bool) {
	var zero T
	resource, _ := kindOf(newOf(zero))
	object, ok := w.server.of(resource).objects[types.NamespacedName{Namespace: namespace, Name: name}]
	if !ok {
		return zero, false
	}
	return object.(T), true
}

// Create creates an object as a user would.
func (w *World) Create(object runtime.Object) runtime.Object {
	resource, _ := kindOf(object)
	created, err := w.server.create(resource, accessor(object).GetNamespace(), object.DeepCopyObject())
	must(err)
	w.log("created %s", describe(created))
	return created
}

// Change changes an object as another component would. The object must be the stored one, as All and Get return it:
// an older one would undo what happened since, or bring back what was deleted.
func Change[T runtime.Object](w *World, object T, changes ...func(T)) {
	resource, _ := kindOf(object)
	stored, ok := w.server.of(resource).objects[nameOf(accessor(object))]
	if !ok || stored != runtime.Object(object) {
		panic(fmt.Sprintf("a change of %s, which is not stored any more", describe(object)))
	}
	next := object.DeepCopyObject().(T)
	for _, c := range changes {
		c(next)
	}
	validate := w.Validate
	w.Validate = nil
	_, err := w.server.replace(resource, object, next)
	w.Validate = validate
	must(err)
}

// Delete deletes an object as a user or another component would.
func (w *World) Delete(object runtime.Object, grace *int64) {
	resource, _ := kindOf(object)
	w.log("deleted %s", describe(object))
	must(w.server.delete(resource, nameOf(accessor(object)), metav1.DeleteOptions{GracePeriodSeconds: grace}))
}

// DeleteWith deletes an object as a user or another component would, with options. Whether they are met is its answer.
func (w *World) DeleteWith(
	resource schema.GroupVersionResource, object metav1.Object, options metav1.DeleteOptions,
) error {
	policy := metav1.DeletionPropagation("")
	if options.PropagationPolicy != nil {
		policy = *options.PropagationPolicy
	}
	w.log("deleted %s %s %s", object.GetName(), object.GetUID(), policy)
	return w.server.delete(resource, nameOf(object), options)
}

// kindOf returns the resource of an object, and its kind.
func kindOf(object runtime.Object) (schema.GroupVersionResource, schema.GroupVersionKind) {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		panic(err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	return resource, kinds[0]
}

func newOf[T runtime.Object](zero T) runtime.Object {
	return reflect.New(reflect.TypeOf(zero).Elem()).Interface().(runtime.Object)
}

// accessor is the metadata of an object.
func accessor(object runtime.Object) metav1.Object {
	m, err := meta.Accessor(object)
	if err != nil {
		panic(err)
	}
	return m
}

func nameOf(m metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
}

func sortedNames(objects map[types.NamespacedName]runtime.Object) []types.NamespacedName {
	names := make([]types.NamespacedName, 0, len(objects))
	for name := range objects {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return names
}

func describe(object runtime.Object) string {
	if object == nil || reflect.ValueOf(object).IsNil() {
		return "nothing"
	}
	m, err := meta.Accessor(object)
	if err != nil {
		return "a list"
	}
	return fmt.Sprintf("%s %s@%s", m.GetName(), m.GetUID(), m.GetResourceVersion())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
