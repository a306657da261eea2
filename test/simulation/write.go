package simulation

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// createFor creates an object for the controller.
func (s *server) createFor(
	resource schema.GroupVersionResource, namespace string, object runtime.Object, dryRun bool,
) (runtime.Object, error) {
	if s.w.Refuse != nil {
		if err := s.w.Refuse(object); err != nil {
			return nil, err
		}
	}
	if dryRun {
		return object, nil
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
			if !s.isLate {
				s.w.t.Errorf("the API server would refuse an update: %v", err)
			}
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "update", resource.GroupResource(),
				accessor(next).GetName(), err.Error(), 0, false)
		}
	}
	return s.put(resource, next).DeepCopyObject(), nil
}

// finalize answers an update of the finalizers of a namespace.
func (s *server) finalize(sent *corev1.Namespace) (runtime.Object, error) {
	resource := corev1.SchemeGroupVersion.WithResource("namespaces")
	stored, ok := s.of(resource).objects[types.NamespacedName{Name: sent.Name}]
	if !ok {
		return nil, apierrors.NewNotFound(resource.GroupResource(), sent.Name)
	}
	if sent.UID != accessor(stored).GetUID() || sent.ResourceVersion != accessor(stored).GetResourceVersion() {
		return nil, conflict(resource, sent.Name)
	}
	next := stored.DeepCopyObject().(*corev1.Namespace)
	next.Spec.Finalizers = sent.Spec.Finalizers
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

func conflict(resource schema.GroupVersionResource, name string) error {
	return apierrors.NewConflict(resource.GroupResource(), name, errors.New("the object has been modified"))
}

// sliceDiffers reports whether an update of an EndpointSlice moves its generation: all do but those of annotations,
// owners and finalizers.
func sliceDiffers(stored, next runtime.Object) bool {
	was, ok := stored.(*discoveryv1.EndpointSlice)
	is, _ := next.(*discoveryv1.EndpointSlice)
	return ok && !apiequality.Semantic.DeepEqual(
		[]any{was.Endpoints, was.Ports, was.Labels, was.DeletionTimestamp},
		[]any{is.Endpoints, is.Ports, is.Labels, is.DeletionTimestamp})
}
