package simulation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

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
	// late are the writes that are still to come, isLate is set while one of them is carried out.
	late   []lateWrite
	isLate bool
}

// storage is what the API server holds of a resource.
type storage struct {
	objects map[types.NamespacedName]runtime.Object
	history []change
}

// change is a change of a stored object, as a watch reports it.
type change struct {
	object  runtime.Object
	deleted bool
	version int
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

// sorted returns the resources in an order that does not change.
func (s *server) sorted() []schema.GroupVersionResource {
	var all []schema.GroupVersionResource
	for resource := range s.resources {
		all = append(all, resource)
	}
	slices.SortFunc(all, func(a, b schema.GroupVersionResource) int { return strings.Compare(a.String(), b.String()) })
	return all
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
	object, err := s.handle(action, s.answer)
	return true, object, err
}

// handle lets trouble happen to a request, which carry carries out.
func (s *server) handle(
	action clienttesting.Action, carry func(clienttesting.Action) (runtime.Object, error),
) (runtime.Object, error) {
	s.w.between()
	fault := s.w.fault(action)
	switch fault {
	case before:
		return nil, s.w.refusal(action.GetResource().GroupResource())
	case late:
		s.w.log("%s is late", nameOfRequest(action))
		s.late = append(s.late, lateWrite{action: action, sent: s.w.Clock.Now(), carry: carry})
		return nil, apierrors.NewTimeoutError("late", 0)
	}
	object, err := s.carryOut(action, carry)
	if fault == after && !isRead(action) && err == nil {
		s.w.log("  the answer is lost")
		return nil, apierrors.NewTimeoutError("lost", 0)
	}
	return object, err
}

// carryOut carries out a request that has arrived.
func (s *server) carryOut(
	action clienttesting.Action, carry func(clienttesting.Action) (runtime.Object, error),
) (runtime.Object, error) {
	object, err := carry(action)
	if s.w.Answered != nil {
		s.w.Answered(action)
	}
	if err == nil && !isRead(action) {
		s.w.log("%s -> %s", nameOfRequest(action), describe(object))
	} else if err != nil {
		s.w.log("%s -> %v", nameOfRequest(action), err)
	}
	return object, err
}

func nameOfRequest(action clienttesting.Action) string {
	return action.GetVerb() + " " + action.GetResource().Resource
}

func isRead(action clienttesting.Action) bool {
	return action.GetVerb() == "get" || action.GetVerb() == "list"
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
			return s.createFor(resource, action.GetNamespace(), a.GetObject().DeepCopyObject(), isDryRun(action))
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

func isDryRun(action clienttesting.Action) bool {
	create, ok := action.(clienttesting.CreateActionImpl)
	return ok && len(create.CreateOptions.DryRun) > 0
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
		if !slices.Contains([]string{"metadata.name", "spec.nodeName", "spec.driver", "status.phase"}, r.Field) {
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
	if err := meta.SetList(list, items); err != nil {
		return nil, err
	}
	return list, meta.NewAccessor().SetResourceVersion(list, strconv.Itoa(s.version))
}

// selectable returns what a list can select an object by.
func selectable(object runtime.Object) fields.Set {
	set := fields.Set{"metadata.name": accessor(object).GetName()}
	switch o := object.(type) {
	case *corev1.Pod:
		set["spec.nodeName"], set["status.phase"] = o.Spec.NodeName, string(o.Status.Phase)
	case *resourcev1.ResourceSlice:
		set["spec.driver"] = o.Spec.Driver
	}
	return set
}
