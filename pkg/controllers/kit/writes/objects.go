package writes

import (
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Objects gives access to the objects of one resource as writes returned them. Reading through
// it avoids conflicts and attempts to create existing objects, which a cache older than the
// controller's own writes would cause. It only saves requests: the API server would reject
// those writes.
type Objects[T metav1.Object] struct {
	memory   *Memory
	resource schema.GroupResource
}

// ObjectsOf returns the Objects of a resource in a Memory.
func ObjectsOf[T metav1.Object](m *Memory, resource schema.GroupResource) Objects[T] {
	return Objects[T]{memory: m, resource: resource}
}

// Wrote records the object that a write for the owner returned. It must not be modified
// afterwards.
func (o Objects[T]) Wrote(owner metav1.Object, written T) {
	written.SetManagedFields(nil)
	m := o.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noticeRestore(o.resource)
	r := m.of(owner)
	r.Written = m.clock.Now()
	if r.Objects == nil {
		r.Objects = map[schema.GroupResource]map[types.UID]metav1.Object{}
	}
	if r.Objects[o.resource] == nil {
		r.Objects[o.resource] = map[types.UID]metav1.Object{}
	}
	r.Objects[o.resource][written.GetUID()] = written
}

// Deleted records that an object was deleted for the owner.
func (o Objects[T]) Deleted(owner, object metav1.Object) {
	m := o.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.known(owner); r != nil {
		r.drop(o.resource, object.GetUID())
		m.prune(reconcile.KeyOf(owner), r)
	}
}

// Newest returns the newer of the cached and the written state of an object. Once the cache has
// caught up, the latter is forgotten.
func (o Objects[T]) Newest(owner metav1.Object, cached T) T {
	m := o.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.known(owner)
	if r == nil {
		return cached
	}
	written, ok := o.written(r)[cached.GetUID()]
	if ok && isNewer(written, cached.GetResourceVersion()) {
		if typed, ok := written.(T); ok {
			return typed
		}
	}
	r.drop(o.resource, cached.GetUID())
	m.prune(reconcile.KeyOf(owner), r)
	return cached
}

// List returns the newest states of the objects that list reads from a cache, and the objects
// written for the owner that are not cached yet.
func (o Objects[T]) List(owner metav1.Object, list func() ([]T, error)) ([]T, error) {
	// The version is read first: the list is at least as new, so an object that is missing from
	// it at that version was deleted.
	o.memory.mu.Lock()
	shown := o.memory.read(o.resource)
	o.memory.mu.Unlock()
	all, err := list()
	if err != nil {
		return nil, err
	}
	return o.merge(owner, all, shown), nil
}

func (o Objects[T]) merge(owner metav1.Object, all []T, shown string) []T {
	m := o.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.known(owner)
	if r == nil {
		return all
	}
	written := o.written(r)
	if len(written) == 0 {
		return all
	}
	cached := make(map[types.UID]bool, len(all))
	for i, object := range all {
		uid := object.GetUID()
		cached[uid] = true
		newer, ok := written[uid]
		if typed, isT := newer.(T); ok && isT && isNewer(newer, object.GetResourceVersion()) {
			all[i] = typed
			continue
		}
		r.drop(o.resource, uid)
	}
	for uid, object := range written {
		if cached[uid] {
			continue
		}
		if typed, ok := object.(T); ok && isNewer(object, shown) {
			all = append(all, typed)
			continue
		}
		r.drop(o.resource, uid)
	}
	m.prune(reconcile.KeyOf(owner), r)
	return all
}

// written returns the remembered objects, none after Timeout.
func (o Objects[T]) written(r *record) map[types.UID]metav1.Object {
	o.memory.noticeRestore(o.resource) // may drop them
	if o.memory.clock.Since(r.Written) >= Timeout {
		clear(r.Objects)
	}
	return r.Objects[o.resource]
}

// Answered handles the response to a write that was based on the remembered objects of the
// owner. A conflict or a NotFound error means that they are outdated.
func (m *Memory) Answered(owner metav1.Object, err error) {
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.known(owner); r != nil {
		clear(r.Objects)
		m.prune(reconcile.KeyOf(owner), r)
	}
}

func (r *record) drop(resource schema.GroupResource, uid types.UID) {
	delete(r.Objects[resource], uid)
	if len(r.Objects[resource]) == 0 {
		delete(r.Objects, resource)
	}
}

// isVisible reports whether a store of a version shows an object, or something later. One whose version
// is unknown does not.
func isVisible(obj metav1.Object, version string) bool {
	return version != "" && !isNewer(obj, version)
}

// dropVisible drops the objects that the stores show.
func (m *Memory) dropVisible(r *record) {
	for resource, objects := range r.Objects {
		shown := m.read(resource)
		maps.DeleteFunc(objects, func(_ types.UID, object metav1.Object) bool { return isVisible(object, shown) })
		if len(objects) == 0 {
			delete(r.Objects, resource)
		}
	}
}

// isNewer returns false if the versions cannot be compared: the cache then takes precedence.
func isNewer(obj metav1.Object, than string) bool {
	return controller.IsOlder(than, obj.GetResourceVersion())
}
