package identity

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/must"
)

// createBrokenDevice is for the controller of tainted devices: a pod uses a device that has a taint which
// its claim does not tolerate.
func (w *workload) createBrokenDevice() {
	w.t.Helper()
	ctx, devices := w.t.Context(), w.client.ResourceV1()
	const driver = "identity.example.com"
	slice := &resourcev1.ResourceSlice{ObjectMeta: meta("broken-of-" + w.namespace)}
	slice.Spec = resourcev1.ResourceSliceSpec{
		Driver: driver, AllNodes: ptr.To(true),
		Pool:    resourcev1.ResourcePool{Name: w.namespace, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "broken", Taints: []resourcev1.DeviceTaint{{Key: "example.com/identity", Effect: resourcev1.DeviceTaintEffectNoExecute}}}},
	}
	made(w.t)(devices.ResourceSlices().Create(ctx, slice, metav1.CreateOptions{}))
	w.t.Cleanup(func() {
		_ = devices.ResourceSlices().Delete(context.Background(), slice.Name, metav1.DeleteOptions{})
	})

	pod := &corev1.Pod{ObjectMeta: meta("with-broken-device"), Spec: podTemplate().Spec}
	pod.Spec.NodeName = "node-of-" + w.namespace
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: ptr.To("broken")}}
	pod = must.Get(w.client.CoreV1().Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{}))(w.t)
	claim := &resourcev1.ResourceClaim{ObjectMeta: meta("broken")}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "device", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "any"}}}
	claim = must.Get(devices.ResourceClaims(w.namespace).Create(ctx, claim, metav1.CreateOptions{}))(w.t)
	claim.Status = resourcev1.ResourceClaimStatus{
		Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Request: "device", Driver: driver, Pool: w.namespace, Device: "broken"}},
		}},
		ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}},
	}
	made(w.t)(devices.ResourceClaims(w.namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{}))
}
