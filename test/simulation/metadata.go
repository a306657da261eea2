package simulation

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Metadata is the part of a world for controllers that read the metadata of any kind.
type Metadata struct {
	w *World
	// Meanwhile is called before a request is answered, for what happens while it is on its way.
	Meanwhile func(clienttesting.Action)
	// Done is called after a request was carried out, with the object before and after it, nil for none.
	Done func(action clienttesting.Action, before, after metav1.Object)
	// Custom are resources that refuse strategic merge patches, as custom ones do.
	Custom map[schema.GroupVersionResource]bool
}

// ServeMetadata connects the metadata client of a world to what is stored. An informer of metadata may not have listed
// yet when it is requested, or begin with an older state.
func ServeMetadata(w *World) *Metadata {
	m := &Metadata{w: w}
	w.server.storedAs = map[schema.GroupVersionResource]schema.GroupVersionResource{}
	w.server.unserved = map[schema.GroupVersionResource]bool{}
	w.Env.Env.Metadata.(*metadatafake.FakeMetadataClient).PrependReactor("*", "*", m.react)
	return m
}

// Serve starts or stops serving a resource. Its objects stay.
func (m *Metadata) Serve(resource schema.GroupVersionResource, served bool) {
	m.w.log("served %s: %v", resource, served)
	m.w.server.unserved[resource] = !served
}

// IsServed reports whether a resource is served.
func (m *Metadata) IsServed(resource schema.GroupVersionResource) bool {
	return !m.w.server.unserved[resource]
}

// Version serves what is stored under one version of a resource under another one, too.
func (m *Metadata) Version(resource, stored schema.GroupVersionResource) {
	m.w.server.storedAs[resource] = stored
}

// Of returns the metadata of all objects of a resource.
func (m *Metadata) Of(resource schema.GroupVersionResource) []metav1.Object {
	objects := m.w.server.of(resource).objects
	var all []metav1.Object
	for _, name := range sortedNames(objects) {
		all = append(all, accessor(objects[name]))
	}
	return all
}

// Change changes the metadata of a stored object, as Of returns it.
func (m *Metadata) Change(resource schema.GroupVersionResource, object metav1.Object, change func(metav1.Object)) {
	stored := m.w.server.of(resource).objects[nameOf(object)]
	if stored == nil || accessor(stored) != object {
		panic("a change of what is not stored any more: " + object.GetName())
	}
	next := stored.DeepCopyObject()
	change(accessor(next))
	if invalid(stored, next) != nil {
		return
	}
	_, err := m.w.server.replace(resource, stored, next)
	must(err)
}

// Define stores or removes a cluster-scoped object of which only the name matters. No event shows that.
func (m *Metadata) Define(resource schema.GroupVersionResource, name string, exists bool) {
	objects := m.w.server.of(resource).objects
	delete(objects, types.NamespacedName{Name: name})
	if exists {
		objects[types.NamespacedName{Name: name}] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
}

func (m *Metadata) react(action clienttesting.Action) (bool, runtime.Object, error) {
	s, resource := m.w.server, action.GetResource()
	if m.Meanwhile != nil {
		m.Meanwhile(action)
	}
	group := schema.GroupResource{Group: resource.Group, Resource: resource.Resource}
	patch, isPatch := action.(clienttesting.PatchAction)
	switch {
	case s.unserved[resource], m.w.Faulty && m.w.OneIn(60):
		return true, nil, notServed(action)
	case isPatch && m.Custom[resource] && patch.GetPatchType() == types.StrategicMergePatchType:
		return true, nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", group, "", "",
			0, false)
	case action.GetVerb() == "list":
		return true, &metav1.List{}, nil // all that matters is that it is served
	}
	name := nameOfAction(action)
	if action.GetVerb() != "get" && m.w.Faulty && m.w.OneIn(40) {
		m.w.log("a webhook refuses %s %s: not found", action.GetVerb(), name)
		return true, nil, apierrors.NewNotFound(group, name)
	}
	object, err := s.handle(action, m.carryOut)
	if object == nil || err != nil {
		return true, nil, err
	}
	return true, meta.AsPartialObjectMetadata(accessor(object)), nil
}

// carryOut has the API server answer a request that has arrived, and reports what that has changed.
func (m *Metadata) carryOut(action clienttesting.Action) (runtime.Object, error) {
	s, resource := m.w.server, action.GetResource()
	if s.unserved[resource] { // since it was sent
		return nil, notServed(action)
	}
	before, version := m.stored(action), s.version
	object, err := s.answer(action)
	if m.Done != nil && s.version != version {
		m.Done(action, before, m.stored(action))
	}
	return object, err
}

// notServed is the answer to a request for a resource that is not served.
func notServed(action clienttesting.Action) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, action.GetVerb(), action.GetResource().GroupResource(),
		"", "404 page not found", 0, true)
}

func nameOfAction(action clienttesting.Action) string {
	if a, ok := action.(interface{ GetName() string }); ok {
		return a.GetName()
	}
	return ""
}

func (m *Metadata) stored(action clienttesting.Action) metav1.Object {
	name := types.NamespacedName{Namespace: action.GetNamespace(), Name: nameOfAction(action)}
	object, ok := m.w.server.of(action.GetResource()).objects[name]
	if !ok {
		return nil
	}
	return accessor(object)
}
