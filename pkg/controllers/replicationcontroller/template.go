package replicationcontroller

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// initContainerAnnotations are the annotations that held init containers before they had a
// field. They are not copied to pods.
func initContainerAnnotations() []string {
	return []string{
		"pod.alpha.kubernetes.io/init-containers",
		"pod.beta.kubernetes.io/init-containers",
		"pod.alpha.kubernetes.io/init-container-statuses",
		"pod.beta.kubernetes.io/init-container-statuses",
	}
}

// templateOf returns the template of pods: spec.template, or an empty one, without the
// annotations of init containers and with both service account fields set to the same value.
// The result shares memory with rc.
func templateOf(rc *corev1.ReplicationController) *corev1.PodTemplateSpec {
	if rc.Spec.Template == nil {
		return &corev1.PodTemplateSpec{}
	}
	template := *rc.Spec.Template
	template.Spec.DeprecatedServiceAccount = template.Spec.ServiceAccountName
	for _, name := range initContainerAnnotations() {
		if _, ok := rc.Spec.Template.Annotations[name]; ok {
			template.Annotations = maps.Clone(template.Annotations)
			maps.DeleteFunc(template.Annotations, isInitContainerAnnotation)
			break
		}
	}
	return &template
}

func isInitContainerAnnotation(name, _ string) bool {
	return slices.Contains(initContainerAnnotations(), name)
}
