package identity

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/manager"
)

// withCloud turns on the controllers of a cloud, with the one in memory.
func withCloud(c *manager.Config) {
	c.Cloud.Provider = fakecloud.Name
	c.Controllers.ServiceLB.Enabled, c.Controllers.NodeRoute.Enabled = ptr.To(true), ptr.To(true)
	c.Controllers.CloudNode.Enabled, c.Controllers.CloudNodeLifecycle.Enabled = ptr.To(true), ptr.To(true)
}

// createInCloud is for the controllers of a cloud: a node that is new, one that is gone, and a
// Service with a load balancer. Routes lead to the ranges that nodes get anyway.
func (w *workload) createInCloud() {
	w.t.Helper()
	ctx, core := w.t.Context(), w.client.CoreV1()
	fresh, gone := &corev1.Node{ObjectMeta: meta("fresh-of-" + w.namespace)}, &corev1.Node{ObjectMeta: meta("gone-of-" + w.namespace)}
	fresh.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Effect: corev1.TaintEffectNoSchedule}}
	fakecloud.The().Remove(gone.Name)
	for _, node := range []*corev1.Node{fresh, gone} {
		made(w.t)(core.Nodes().Create(ctx, node, metav1.CreateOptions{}))
		w.t.Cleanup(func() { _ = core.Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}) })
	}
	made(w.t)(core.Services(w.namespace).Create(ctx, &corev1.Service{
		ObjectMeta: meta("balanced"), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))
}
