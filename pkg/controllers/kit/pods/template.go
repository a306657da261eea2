package pods

import (
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FromTemplate returns a new pod made from the template, controlled by what ref refers
// to and with a name generated from the owner's. It shares no memory with the template.
func FromTemplate(template *corev1.PodTemplateSpec, owner metav1.Object, ref metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Labels:          maps.Clone(template.Labels),
			Annotations:     maps.Clone(template.Annotations),
			Finalizers:      slices.Clone(template.Finalizers),
			GenerateName:    NamePrefix(owner.GetName()),
			OwnerReferences: []metav1.OwnerReference{*ref.DeepCopy()},
		},
		Spec: *template.Spec.DeepCopy(),
	}
}

// NamePrefix returns the prefix for generated names of the pods of an owner: its name and a
// dash, without the dash if that is not a valid prefix.
func NamePrefix(owner string) string {
	prefix := owner + "-"
	if len(validation.NameIsDNSSubdomain(prefix, true)) != 0 {
		return owner
	}
	return prefix
}

// validateRef returns an error unless the reference is a valid controller reference.
func validateRef(ref *metav1.OwnerReference) error {
	switch {
	case ref == nil:
		return errors.New("controllerRef is nil")
	case ref.APIVersion == "":
		return errors.New("controllerRef has empty APIVersion")
	case ref.Kind == "":
		return errors.New("controllerRef has empty Kind")
	case ref.Controller == nil || !*ref.Controller:
		return errors.New("controllerRef.Controller is not set to true")
	case ref.BlockOwnerDeletion == nil || !*ref.BlockOwnerDeletion:
		return errors.New("controllerRef.BlockOwnerDeletion is not set to true")
	}
	return nil
}
