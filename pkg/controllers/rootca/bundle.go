package rootca

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// bundleKey is the only key of the data.
	bundleKey = "ca.crt"

	descriptionAnnotation = "kubernetes.io/description"
	description           = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
		"No other usage is guaranteed across distributions of Kubernetes clusters."
)

// newConfigMap returns the ConfigMap to create.
func newConfigMap(namespace, bundle string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name:        configMapName,
			Namespace:   namespace,
			Annotations: map[string]string{descriptionAnnotation: description},
		},
		Data: map[string]string{bundleKey: bundle},
	}
}

// correct reports whether a ConfigMap needs no write. Any description is accepted: insisting on
// ours could conflict with another writer. Binary data is ignored. Whoever has no bundle leaves
// one that is published to those who have.
func correct(cm *corev1.ConfigMap, bundle string) bool {
	if bundle == "" && cm.Data[bundleKey] != "" {
		return true
	}
	return maps.Equal(cm.Data, map[string]string{bundleKey: bundle}) && cm.Annotations[descriptionAnnotation] != ""
}

// corrected returns a copy of a ConfigMap with the data and the description it should have.
func corrected(cm *corev1.ConfigMap, bundle string) *corev1.ConfigMap {
	cm = cm.DeepCopy()
	cm.Data = map[string]string{bundleKey: bundle}
	if cm.Annotations == nil {
		cm.Annotations = map[string]string{}
	}
	cm.Annotations[descriptionAnnotation] = description
	return cm
}

// leaving reports whether the API server would reject a create in the namespace.
func leaving(ns *corev1.Namespace) bool {
	return ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating
}
