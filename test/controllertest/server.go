package controllertest

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// Stored returns an object as the API server holds it, false if it does not. Nothing of it is
// counted as a request.
func Stored[T runtime.Object](t testing.TB, e *Env, namespace, name string) (object T, ok bool) {
	t.Helper()
	resource, _ := kindOf(t, newOf[T]())
	stored, err := e.Fake.Tracker().Get(resource, namespace, name)
	if apierrors.IsNotFound(err) {
		return object, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return stored.DeepCopyObject().(T), true
}

// MustStored is Stored of an object that there has to be.
func MustStored[T runtime.Object](t testing.TB, e *Env, namespace, name string) T {
	t.Helper()
	object, ok := Stored[T](t, e, namespace, name)
	if !ok {
		t.Fatalf("the API server has no %T %s/%s", object, namespace, name)
	}
	return object
}

// AllStored returns the objects of a kind that the API server holds in a namespace, or in all
// of them.
func AllStored[T runtime.Object](t testing.TB, e *Env, namespace string) []T {
	t.Helper()
	var all []T
	for _, object := range e.list(t, newOf[T](), namespace) {
		all = append(all, object.(T))
	}
	return all
}

// Change changes an object as somebody else would, and gives it a new version. The changes must store nothing.
func Change[T runtime.Object](t testing.TB, e *Env, namespace, name string, changes ...func(T)) {
	t.Helper()
	e.storing.Lock()
	defer e.storing.Unlock()
	object := MustStored[T](t, e, namespace, name)
	for _, change := range changes {
		change(object)
	}
	e.store(t, object)
}

// Store puts objects on the API server as somebody else would, with new versions and in place
// of what there is of them.
func (e *Env) Store(t testing.TB, objects ...runtime.Object) {
	t.Helper()
	e.storing.Lock()
	defer e.storing.Unlock()
	e.store(t, objects...)
}

func (e *Env) store(t testing.TB, objects ...runtime.Object) {
	t.Helper()
	for _, object := range objects {
		accessor, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		accessor.SetResourceVersion(e.NextVersion())
		resource, _ := kindOf(t, object)
		err = e.Fake.Tracker().Update(resource, object, accessor.GetNamespace())
		if apierrors.IsNotFound(err) {
			err = e.Fake.Tracker().Create(resource, object, accessor.GetNamespace())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Remove removes objects from the API server as somebody else would.
func (e *Env) Remove(t testing.TB, objects ...runtime.Object) {
	t.Helper()
	for _, object := range objects {
		accessor, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		resource, _ := kindOf(t, object)
		if err := e.Fake.Tracker().Delete(resource, accessor.GetNamespace(), accessor.GetName()); err != nil {
			t.Fatal(err)
		}
	}
}

// CompleteWrites makes the API server complete what is created and updated, which a fake one
// does not: each write of these resources, all if none is named, gets a new version; what is
// created gets a UID, a creation time and, if it asks for a generated name, one that ends in
// the number of objects of its kind that were created. What is created as a dry run is not stored.
func (e *Env) CompleteWrites(resources ...string) {
	if len(resources) == 0 {
		resources = []string{"*"}
	}
	created := map[string]int{}
	complete := func(action clienttesting.Action) (bool, runtime.Object, error) {
		object, err := meta.Accessor(action.(clienttesting.UpdateAction).GetObject()) // creations are updates as well
		if err != nil {
			return true, nil, err
		}
		object.SetResourceVersion(e.NextVersion())
		if action.GetVerb() != "create" {
			return false, nil, nil
		}
		resource := action.GetResource().Resource
		created[resource]++
		object.SetNamespace(action.GetNamespace())
		if object.GetName() == "" {
			object.SetName(fmt.Sprint(object.GetGenerateName(), created[resource]))
		}
		object.SetUID(types.UID(object.GetName() + "@" + object.GetResourceVersion()))
		object.SetCreationTimestamp(metav1.NewTime(e.Clock.Now()))
		if create, ok := action.(clienttesting.CreateActionImpl); ok && len(create.CreateOptions.DryRun) > 0 {
			return true, create.Object, nil // it is not stored
		}
		return false, nil, nil
	}
	for _, resource := range resources {
		e.react("create", resource, complete)
		e.react("update", resource, complete)
	}
}

// CheckWrites makes the API server treat updates of these resources as a real one does. One of
// another version than is stored is a conflict. One of the status keeps the spec;
// any other keeps the status, and is a new generation. It is for use after CompleteWrites.
func (e *Env) CheckWrites(resources ...string) {
	check := func(action clienttesting.Action) (bool, runtime.Object, error) {
		object := action.(clienttesting.UpdateAction).GetObject()
		sent, err := meta.Accessor(object)
		if err != nil {
			return true, nil, err
		}
		resource := action.GetResource()
		stored, err := e.Fake.Tracker().Get(resource, action.GetNamespace(), sent.GetName())
		if err != nil {
			return true, nil, err
		}
		was, err := meta.Accessor(stored)
		if err != nil {
			return true, nil, err
		}
		if was.GetResourceVersion() != sent.GetResourceVersion() {
			return true, nil, apierrors.NewConflict(resource.GroupResource(), sent.GetName(), errors.New("the object has been modified"))
		}
		kept := "Spec"
		if action.GetSubresource() != "status" {
			kept = "Status"
			sent.SetGeneration(was.GetGeneration() + 1)
		}
		reflect.ValueOf(object).Elem().FieldByName(kept).Set(reflect.ValueOf(stored).Elem().FieldByName(kept))
		return false, nil, nil
	}
	for _, resource := range resources {
		e.react("update", resource, check)
	}
}

// CheckPreconditions makes the API server refuse updates and deletions of these resources with a conflict if they name
// another UID or version than is stored. What they do not name does not matter.
func (e *Env) CheckPreconditions(resources ...string) {
	check := func(action clienttesting.Action, name string, uid types.UID, version string) (bool, runtime.Object, error) {
		resource := action.GetResource()
		object, err := e.Fake.Tracker().Get(resource, action.GetNamespace(), name)
		if err != nil {
			return true, nil, err
		}
		stored, err := meta.Accessor(object)
		if err != nil {
			return true, nil, err
		}
		if uid != "" && uid != stored.GetUID() || version != "" && version != stored.GetResourceVersion() {
			return true, nil, apierrors.NewConflict(resource.GroupResource(), name, errors.New("precondition failed"))
		}
		return false, nil, nil
	}
	update := func(action clienttesting.Action) (bool, runtime.Object, error) {
		sent, err := meta.Accessor(action.(clienttesting.UpdateAction).GetObject())
		if err != nil {
			return true, nil, err
		}
		return check(action, sent.GetName(), sent.GetUID(), sent.GetResourceVersion())
	}
	remove := func(action clienttesting.Action) (bool, runtime.Object, error) {
		deletion := action.(clienttesting.DeleteActionImpl)
		p := ptr.Deref(deletion.DeleteOptions.Preconditions, metav1.Preconditions{})
		return check(action, deletion.Name, ptr.Deref(p.UID, ""), ptr.Deref(p.ResourceVersion, ""))
	}
	for _, resource := range resources {
		e.react("update", resource, update)
		e.react("delete", resource, remove)
	}
}

// NextVersion is the version of the next write.
func (e *Env) NextVersion() string { return strconv.FormatInt(e.version.Add(1), 10) }

// list returns what the API server holds of the kind that object is of.
func (e *Env) list(t testing.TB, object runtime.Object, namespace string) []runtime.Object {
	t.Helper()
	resource, kind := kindOf(t, object)
	list, err := e.Fake.Tracker().List(resource, kind, namespace)
	if err != nil {
		t.Fatal(err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

// newOf makes an empty object of a pointer type.
func newOf[T runtime.Object]() T { return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T) }
