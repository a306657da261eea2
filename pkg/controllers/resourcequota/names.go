package resourcequota

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// requests is the prefix under which a quota limits the requests of a resource.
const requests = corev1.DefaultResourceRequestsPrefix

// isNative reports whether a name belongs to Kubernetes: it has no domain, or that of Kubernetes.
func isNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// isExtended reports whether a pod that requests a resource is counted under requests.<name>:
// the resource is one of a third party, or stands for a device class.
func isExtended(name corev1.ResourceName) bool {
	if strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) {
		return true
	}
	if isNative(name) || strings.HasPrefix(string(name), requests) {
		return false
	}
	return len(validation.IsQualifiedName(requests+string(name))) == 0
}

// isExtendedQuota reports whether a quota of that name limits an extended resource of pods.
func isExtendedQuota(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), requests) &&
		(!isNative(name) || strings.HasPrefix(string(name), requests+resourcev1.ResourceDeviceClassPrefix))
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
