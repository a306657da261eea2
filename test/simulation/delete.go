package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

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

// deleteCollection deletes all objects of a kind in a namespace for the controller. While the world is Faulty, it may
// stop half-way.
func (s *server) deleteCollection(a clienttesting.DeleteCollectionActionImpl) error {
	resource := a.GetResource()
	for _, name := range sortedNames(s.of(resource).objects) {
		if name.Namespace != a.GetNamespace() {
			continue
		}
		if s.w.Faulty && s.w.OneIn(10) {
			return s.w.refusal(resource.GroupResource())
		}
		if err := s.deleteFor(resource, name, a.DeleteOptions); err != nil {
			return err
		}
	}
	return nil
}

// graceOf returns the grace period of an object. Only pods that run need one.
func graceOf(object runtime.Object) int64 {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return 0
	}
	return 30
}

// finalizersOf are those that an object has when it is deleted.
func finalizersOf(finalizers []string, policy *metav1.DeletionPropagation) []string {
	if policy == nil {
		return finalizers
	}
	next := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	switch *policy {
	case metav1.DeletePropagationOrphan:
		next = append(next, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		next = append(next, metav1.FinalizerDeleteDependents)
	}
	return next
}

// isHeldBySpec reports whether an object exists although it was deleted, because of a finalizer that is not in its
// metadata.
func isHeldBySpec(object runtime.Object) bool {
	ns, ok := object.(*corev1.Namespace)
	return ok && len(ns.Spec.Finalizers) > 0
}

// moveGeneration raises the generation of an EndpointSlice when its deletion begins.
func moveGeneration(deleted runtime.Object) {
	if slice, ok := deleted.(*discoveryv1.EndpointSlice); ok {
		slice.Generation++
	}
}
