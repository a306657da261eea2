package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// kindOf returns the resource of an object, and its kind.
func kindOf(object runtime.Object) (schema.GroupVersionResource, schema.GroupVersionKind) {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		panic(err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	return resource, kinds[0]
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

// change is a change of a stored object, as a watch reports it.
type change struct {
	object  runtime.Object
	deleted bool
	version int
}

// storage is what the API server holds of a resource.
type storage struct {
	objects map[types.NamespacedName]runtime.Object
	history []change
}

// server answers requests as an API server does, one at a time, and keeps the history of each resource.
type server struct {
	w         *World
	version   int
	created   int
	resources map[schema.GroupVersionResource]*storage
	// storedAs maps further versions of a resource to the stored one, unserved has the resources that are not served.
	storedAs map[schema.GroupVersionResource]schema.GroupVersionResource
	unserved map[schema.GroupVersionResource]bool
	// applied has the fields that were applied to an object, as they were stored.
	applied map[types.UID]map[string]json.RawMessage
	// encoded is in which way each object is stored, for World.Encoding.
	encoded map[types.UID]string
}

func (s *server) of(resource schema.GroupVersionResource) *storage {
	if stored, ok := s.storedAs[resource]; ok {
		resource = stored
	}
	if s.resources[resource] == nil {
		s.resources[resource] = &storage{objects: map[types.NamespacedName]runtime.Object{}}
	}
	return s.resources[resource]
}

// put stores an object as of the next version, or removes it if it is being deleted and nothing holds it.
func (s *server) put(resource schema.GroupVersionResource, object runtime.Object) runtime.Object {
	m := accessor(object)
	s.version++
	m.SetResourceVersion(strconv.Itoa(s.version))
	s.encode(resource, m)
	st := s.of(resource)
	isOver := m.GetDeletionTimestamp() != nil && ptr.Deref(m.GetDeletionGracePeriodSeconds(), 0) == 0
	if isOver && len(m.GetFinalizers()) == 0 && !isHeldBySpec(object) {
		delete(st.objects, nameOf(m))
		st.history = append(st.history, change{object: object, deleted: true, version: s.version})
		return object
	}
	st.objects[nameOf(m)] = object
	st.history = append(st.history, change{object: object, version: s.version})
	return object
}

// react answers all requests.
func (s *server) react(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetResource().Resource == "events" {
		return false, nil, nil
	}
	s.w.between()
	request := action.GetVerb() + " " + action.GetResource().Resource
	isRead := action.GetVerb() == "get" || action.GetVerb() == "list"
	fault := s.w.fault()
	if fault == before {
		return true, nil, s.w.refusal(action.GetResource().GroupResource())
	}
	object, err := s.answer(action)
	if s.w.Answered != nil {
		s.w.Answered(action)
	}
	if err == nil && !isRead {
		s.w.log("%s -> %s", request, describe(object))
	} else if err != nil {
		s.w.log("%s -> %v", request, err)
	}
	if fault == after && !isRead && err == nil {
		s.w.log("  the answer is lost")
		return true, nil, apierrors.NewTimeoutError("lost", 0)
	}
	return true, object, err
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

func (s *server) answer(action clienttesting.Action) (runtime.Object, error) {
	resource := action.GetResource()
	switch a := action.(type) {
	case clienttesting.ListActionImpl:
		return s.list(a)
	case clienttesting.DeleteCollectionActionImpl:
		return nil, s.deleteCollection(a)
	case clienttesting.CreateAction: // updates are of this type too
		verb, sub := action.GetVerb(), action.GetSubresource()
		if ns, ok := a.GetObject().(*corev1.Namespace); ok && sub == "finalize" {
			return s.finalize(ns.DeepCopy())
		}
		if sub != "" && (verb == "create" || sub != "status") {
			return nil, s.gap("%s of the %s of %s", verb, sub, resource.Resource)
		}
		if verb == "create" {
			return s.createFor(resource, action.GetNamespace(), a.GetObject().DeepCopyObject())
		}
		return s.update(resource, sub, a.GetObject().DeepCopyObject())
	case clienttesting.PatchAction:
		return s.patch(a)
	case clienttesting.DeleteAction:
		name := types.NamespacedName{Namespace: a.GetNamespace(), Name: a.GetName()}
		return nil, s.deleteFor(resource, name, a.GetDeleteOptions())
	case clienttesting.GetAction:
		object, ok := s.of(resource).objects[types.NamespacedName{Namespace: a.GetNamespace(), Name: a.GetName()}]
		if !ok {
			return nil, apierrors.NewNotFound(resource.GroupResource(), a.GetName())
		}
		return object.DeepCopyObject(), nil
	}
	return nil, s.gap("unexpected %T: %s %s", action, action.GetVerb(), resource.Resource)
}

// gap fails the test, since the simulation cannot answer a request.
func (s *server) gap(format string, args ...any) error {
	err := fmt.Errorf("gap of the simulation: "+format, args...)
	s.w.t.Error(err)
	return err
}

func (s *server) list(a clienttesting.ListActionImpl) (runtime.Object, error) {
	kind := a.GetKind()
	list, err := scheme.Scheme.New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return nil, err
	}
	restrictions := a.GetListRestrictions()
	for _, r := range restrictions.Fields.Requirements() {
		if r.Field != "metadata.name" && r.Field != "spec.nodeName" && r.Field != "spec.driver" {
			return nil, s.gap("list %s by the field %s", a.GetResource().Resource, r.Field)
		}
	}
	var items []runtime.Object
	objects := s.of(a.GetResource()).objects
	for _, name := range sortedNames(objects) {
		object := objects[name]
		isIn := a.GetNamespace() == "" || name.Namespace == a.GetNamespace()
		isChosen := restrictions.Fields.Matches(selectable(object))
		if isIn && isChosen && restrictions.Labels.Matches(labels.Set(accessor(object).GetLabels())) {
			items = append(items, object.DeepCopyObject())
		}
	}
	return list, meta.SetList(list, items)
}

// selectable returns what a list can select an object by.
func selectable(object runtime.Object) fields.Set {
	set := fields.Set{"metadata.name": accessor(object).GetName()}
	switch o := object.(type) {
	case *corev1.Pod:
		set["spec.nodeName"] = o.Spec.NodeName
	case *resourcev1.ResourceSlice:
		set["spec.driver"] = o.Spec.Driver
	}
	return set
}

// deleteFor deletes an object for the controller.
func (s *server) deleteFor(
	resource schema.GroupVersionResource, name types.NamespacedName, options metav1.DeleteOptions,
) error {
	stored := s.of(resource).objects[name]
	err := s.delete(resource, name, options)
	if err == nil && s.w.Deleted != nil {
		s.w.Deleted(stored)
	}
	return err
}

// createFor creates an object for the controller.
func (s *server) createFor(
	resource schema.GroupVersionResource, namespace string, object runtime.Object,
) (runtime.Object, error) {
	if s.w.Refuse != nil {
		if err := s.w.Refuse(object); err != nil {
			return nil, err
		}
	}
	return s.create(resource, namespace, object)
}

func (s *server) create(
	resource schema.GroupVersionResource, namespace string, object runtime.Object,
) (runtime.Object, error) {
	m := accessor(object)
	m.SetNamespace(namespace)
	s.created++
	if m.GetName() == "" {
		m.SetName(fmt.Sprintf("%s%d", m.GetGenerateName(), s.created))
	}
	if _, ok := s.of(resource).objects[nameOf(m)]; ok {
		return nil, apierrors.NewAlreadyExists(resource.GroupResource(), m.GetName())
	}
	m.SetUID(types.UID(fmt.Sprintf("u%d", s.created)))
	m.SetCreationTimestamp(metav1.NewTime(s.w.Clock.Now().Truncate(time.Second)))
	m.SetGeneration(1)
	if pod, ok := object.(*corev1.Pod); ok {
		pod.Status.Phase = corev1.PodPending
	}
	if s.w.Admit != nil {
		s.w.Admit(object)
	}
	return s.put(resource, object).DeepCopyObject(), nil
}

// graceOf returns the grace period of an object. Only pods that run need one.
func graceOf(object runtime.Object) int64 {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return 0
	}
	return 30
}

func conflict(resource schema.GroupVersionResource, name string) error {
	return apierrors.NewConflict(resource.GroupResource(), name, errors.New("the object has been modified"))
}

func (s *server) update(
	resource schema.GroupVersionResource, subresource string, object runtime.Object,
) (runtime.Object, error) {
	sent := accessor(object)
	stored, ok := s.of(resource).objects[nameOf(sent)]
	if !ok {
		return nil, apierrors.NewNotFound(resource.GroupResource(), sent.GetName())
	}
	was := accessor(stored)
	isVersion := sent.GetResourceVersion() == "" || sent.GetResourceVersion() == was.GetResourceVersion()
	if sent.GetUID() != was.GetUID() || !isVersion {
		return nil, conflict(resource, sent.GetName())
	}
	next := stored.DeepCopyObject()
	is, from := reflect.ValueOf(next).Elem(), reflect.ValueOf(object).Elem()
	if subresource == "status" {
		is.FieldByName("Status").Set(from.FieldByName("Status"))
		accessor(next).SetAnnotations(sent.GetAnnotations())
	} else {
		m := accessor(next)
		m.SetLabels(sent.GetLabels())
		m.SetAnnotations(sent.GetAnnotations())
		m.SetOwnerReferences(sent.GetOwnerReferences())
		m.SetFinalizers(sent.GetFinalizers())
		for i := range is.NumField() {
			switch is.Type().Field(i).Name {
			case "TypeMeta", "ObjectMeta", "Status":
			default:
				is.Field(i).Set(from.Field(i))
			}
		}
	}
	if err := invalid(stored, next); err != nil {
		return nil, err
	}
	return s.replace(resource, stored, next)
}

// invalid is the answer to an update that changes metadata as no update may.
func invalid(stored, next runtime.Object) error {
	is, was := accessor(next), accessor(stored)
	faults := validation.ValidateObjectMetaAccessorUpdate(is, was, field.NewPath("metadata"))
	if s, ok := next.(*corev1.Service); ok && s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		if path := field.NewPath("status", "loadBalancer", "ingress"); len(s.Status.LoadBalancer.Ingress) > 0 {
			faults = append(faults, field.Forbidden(path, "the type is not LoadBalancer"))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	_, kind := kindOf(stored)
	return apierrors.NewInvalid(kind.GroupKind(), was.GetName(), faults)
}

// replace stores the next state of an object unless it is equal.
func (s *server) replace(resource schema.GroupVersionResource, stored, next runtime.Object) (runtime.Object, error) {
	if apiequality.Semantic.DeepEqual(stored, next) && s.isEncoded(resource, accessor(stored)) {
		return stored.DeepCopyObject(), nil
	}
	was, is := reflect.ValueOf(stored).Elem().FieldByName("Spec"), reflect.ValueOf(next).Elem().FieldByName("Spec")
	if is.IsValid() && !apiequality.Semantic.DeepEqual(was.Interface(), is.Interface()) || sliceDiffers(stored, next) {
		accessor(next).SetGeneration(accessor(next).GetGeneration() + 1)
	}
	if s.w.Validate != nil {
		if err := s.w.Validate(stored, next); err != nil {
			s.w.t.Errorf("the API server would refuse an update: %v", err)
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "update", resource.GroupResource(),
				accessor(next).GetName(), err.Error(), 0, false)
		}
	}
	return s.put(resource, next).DeepCopyObject(), nil
}

func (s *server) patch(a clienttesting.PatchAction) (runtime.Object, error) {
	if a.GetPatchType() == types.ApplyPatchType && a.GetSubresource() == "" {
		return s.apply(a)
	}
	resource, name := a.GetResource(), types.NamespacedName{Namespace: a.GetNamespace(), Name: a.GetName()}
	stored, ok := s.of(resource).objects[name]
	if !ok {
		return nil, apierrors.NewNotFound(resource.GroupResource(), a.GetName())
	}
	isStatus := a.GetSubresource() == "status"
	if a.GetSubresource() != "" && !isStatus {
		return nil, s.gap("patch of the %s of %s, type %s", a.GetSubresource(), resource.Resource, a.GetPatchType())
	}
	next, err := patched(stored, a.GetPatchType(), a.GetPatch())
	if err != nil {
		return nil, s.gap("patch %s of %s: %v", a.GetPatch(), resource.Resource, err)
	}
	if accessor(next).GetResourceVersion() != accessor(stored).GetResourceVersion() {
		return nil, conflict(resource, name.Name)
	}
	if err := invalid(stored, next); err != nil {
		return nil, err
	}
	if isStatus {
		next = withStatus(stored, next)
	}
	return s.replace(resource, stored, next)
}

// withStatus returns a stored object with the status and the annotations of another state of it. Of a Service, the
// status is written together with all metadata.
func withStatus(stored, from runtime.Object) runtime.Object {
	next := stored.DeepCopyObject()
	if _, ok := stored.(*corev1.Service); ok {
		accessor(next).SetFinalizers(accessor(from).GetFinalizers())
		accessor(next).SetLabels(accessor(from).GetLabels())
	}
	status := reflect.ValueOf(from).Elem().FieldByName("Status")
	reflect.ValueOf(next).Elem().FieldByName("Status").Set(status)
	accessor(next).SetAnnotations(accessor(from).GetAnnotations())
	return next
}

// patched returns an object with a patch applied. A field that is applied replaces what was there, also if it is a
// list, as if the same manager had applied all of it.
func patched(stored runtime.Object, kind types.PatchType, patch []byte) (runtime.Object, error) {
	text, err := json.Marshal(stored)
	if err != nil {
		return nil, err
	}
	next := newOf(stored)
	switch kind {
	case types.StrategicMergePatchType:
		text, err = strategicpatch.StrategicMergePatch(text, patch, next)
	case types.MergePatchType, types.ApplyPatchType:
		text, err = jsonpatch.MergePatch(text, patch)
	default:
		return nil, fmt.Errorf("unexpected type %s", kind)
	}
	if err != nil {
		return nil, err
	}
	return next, json.Unmarshal(text, next)
}

func (s *server) delete(
	resource schema.GroupVersionResource, name types.NamespacedName, options metav1.DeleteOptions,
) error {
	stored, ok := s.of(resource).objects[name]
	if !ok {
		return apierrors.NewNotFound(resource.GroupResource(), name.Name)
	}
	m := accessor(stored)
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != m.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != m.GetResourceVersion() {
			return conflict(resource, name.Name)
		}
	}
	next := stored.DeepCopyObject()
	m = accessor(next)
	m.SetFinalizers(finalizersOf(m.GetFinalizers(), options.PropagationPolicy))
	grace := graceOf(next)
	if options.GracePeriodSeconds != nil {
		grace = *options.GracePeriodSeconds
	}
	began := s.w.Clock.Now().Truncate(time.Second)
	if is := m.GetDeletionTimestamp(); is != nil { // the grace period can only be shortened
		has := ptr.Deref(m.GetDeletionGracePeriodSeconds(), 0)
		if options.GracePeriodSeconds == nil || grace >= has {
			if !slices.Equal(m.GetFinalizers(), accessor(stored).GetFinalizers()) {
				s.put(resource, next)
			}
			return nil
		}
		began = is.Add(-time.Duration(has) * time.Second)
	}
	at := metav1.NewTime(began.Add(time.Duration(grace) * time.Second))
	m.SetDeletionTimestamp(&at)
	m.SetDeletionGracePeriodSeconds(&grace)
	moveGeneration(next)
	s.put(resource, next)
	return nil
}
