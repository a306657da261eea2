package replicationcontroller

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// initContainerAnnotations are annotations in which init containers were kept before
// they had a field. Pods do not get them.
func initContainerAnnotations() []string {
	return []string{
		"pod.alpha.kubernetes.io/init-containers",
		"pod.beta.kubernetes.io/init-containers",
		"pod.alpha.kubernetes.io/init-container-statuses",
		"pod.beta.kubernetes.io/init-container-statuses",
	}
}

// templateOf returns what pods are made from: spec.template, or an empty template if
// there is none, without the annotations of old init containers and with both fields for
// the service account saying the same. The result shares memory with rc.
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
	for _, dropped := range initContainerAnnotations() {
		if name == dropped {
			return true
		}
	}
	return false
}
