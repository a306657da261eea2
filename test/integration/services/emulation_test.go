package services

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/utils/ptr"
)

// TestGatesOfAnEmulatedVersion has the manager behave like a version in which gates could be
// switched that are locked today.
func TestGatesOfAnEmulatedVersion(t *testing.T) {
	cluster.Emulate(t, "1.33", map[string]bool{})
	t.Run("traffic is not kept on the node", func(t *testing.T) {
		namespace := cluster.NamespaceForPods(t)
		createService(t, namespace, func(s *corev1.Service) {
			s.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameNode)
		})
		createPods(t, namespace, "web", nodes)
		waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0, web-1, web-2")
		waitForHints(t, namespace, "web-0=", "web-1=", "web-2=")
	})
}
