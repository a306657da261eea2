package devices

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// publish makes a driver with some devices on every node, and a class that selects them. Both are
// called like the namespace, which it returns.
func publish(t *testing.T, namespace string, devices int) string {
	t.Helper()
	driver, resources := namespace, admin.ResourceV1()
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: driver},
		Spec:       resourcev1.ResourceSliceSpec{Driver: driver, Pool: resourcev1.ResourcePool{Name: "pool", ResourceSliceCount: 1}, AllNodes: ptr.To(true)},
	}
	for i := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("device-", i)})
	}
	class := &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: driver},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{
			{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}},
		}},
	}
	must.Get(resources.DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{}))(t)
	must.Get(resources.ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		_ = resources.ResourceSlices().Delete(context.Background(), driver, metav1.DeleteOptions{})
		_ = resources.DeviceClasses().Delete(context.Background(), driver, metav1.DeleteOptions{})
	})
	return driver
}

func oneOf(class string) resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Name: "device", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class}},
	}}}
}

// createTemplate creates the template "one" of claims for one device of a class.
func createTemplate(t *testing.T, namespace, class string) {
	t.Helper()
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	template.Spec.Labels, template.Spec.Annotations = map[string]string{"from": "template"}, map[string]string{"example.com/from": "template"}
	template.Spec.Spec = oneOf(class)
	must.Get(admin.ResourceV1().ResourceClaimTemplates(namespace).Create(t.Context(), template, metav1.CreateOptions{}))(t)
}

func createClaim(t *testing.T, namespace, name, class string) *resourcev1.ResourceClaim {
	t.Helper()
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: oneOf(class)}
	return must.Get(admin.ResourceV1().ResourceClaims(namespace).Create(t.Context(), claim, metav1.CreateOptions{}))(t)
}

// allocate plays the scheduler: it protects a claim and allocates a device, for nobody.
func allocate(t *testing.T, claim *resourcev1.ResourceClaim) {
	t.Helper()
	claims := admin.ResourceV1().ResourceClaims(claim.Namespace)
	claim.Finalizers = []string{resourcev1.Finalizer}
	claim = must.Get(claims.Update(t.Context(), claim, metav1.UpdateOptions{}))(t)
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "device", Driver: claim.Namespace, Pool: "pool", Device: "device-0"},
	}}}
	must.Get(claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}))(t)
}

// fromTemplate is an entry for a claim that is generated from the template "one".
func fromTemplate(name string) corev1.PodResourceClaim {
	return corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: ptr.To("one")}
}

func ofUser(name, claim string) corev1.PodResourceClaim {
	return corev1.PodResourceClaim{Name: name, ResourceClaimName: &claim}
}

// createPod creates a pod with claims for the scheduler.
func createPod(t *testing.T, namespace, name string, entries []corev1.PodResourceClaim, edits ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	return cluster.CreatePod(t, namespace, name, "web", func(p *corev1.Pod) {
		p.Spec.ResourceClaims = entries
		for _, e := range entries {
			p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: e.Name})
		}
		for _, edit := range edits {
			edit(p)
		}
	})
}

// unscheduled leaves a pod without a node.
func unscheduled(p *corev1.Pod) { p.Spec.SchedulerName = "nobody" }

// onGhost puts a pod on a node that does not exist, past the scheduler.
func onGhost(p *corev1.Pod) { p.Spec.NodeName = harness.Ghost }

// claimsOf waits until a pod has the names of claims for these entries in its status, and no
// others, and returns the claims.
func claimsOf(t *testing.T, pod *corev1.Pod, entries ...string) map[string]*resourcev1.ResourceClaim {
	t.Helper()
	var found map[string]*resourcev1.ResourceClaim
	await.That(t, "the claims of "+pod.Name+" are recorded", func(ctx context.Context) error {
		p, err := admin.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		found = map[string]*resourcev1.ResourceClaim{}
		for _, s := range p.Status.ResourceClaimStatuses {
			if !slices.Contains(entries, s.Name) || s.ResourceClaimName == nil {
				return fmt.Errorf("recorded is %+v", s)
			}
			if found[s.Name], err = admin.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, *s.ResourceClaimName, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		if len(found) != len(entries) {
			return fmt.Errorf("recorded are %+v", p.Status.ResourceClaimStatuses)
		}
		return nil
	})
	return found
}

// awaitClaim waits until check returns nil for a claim.
func awaitClaim(t *testing.T, what, namespace, name string, check func(*resourcev1.ResourceClaim) error) {
	t.Helper()
	await.That(t, what, func(ctx context.Context) error {
		claim, err := admin.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return check(claim)
	})
}

func awaitNoClaim(t *testing.T, namespace, name string) {
	t.Helper()
	await.That(t, name+" is gone", func(ctx context.Context) error {
		_, err := admin.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
		return await.Gone(err)
	})
}

// isFree is nil if a claim is neither reserved nor allocated nor protected.
func isFree(claim *resourcev1.ResourceClaim) error {
	if len(claim.Status.ReservedFor) > 0 || claim.Status.Allocation != nil || len(claim.Finalizers) > 0 {
		return fmt.Errorf("it is reserved for %+v, allocation %+v, finalizers %v", claim.Status.ReservedFor, claim.Status.Allocation, claim.Finalizers)
	}
	return nil
}

// isFor returns what is nil if a claim is reserved for just these UIDs, and allocated.
func isFor(want ...types.UID) func(*resourcev1.ResourceClaim) error {
	return func(claim *resourcev1.ResourceClaim) error {
		var got []types.UID
		for _, consumer := range claim.Status.ReservedFor {
			got = append(got, consumer.UID)
		}
		slices.Sort(got)
		want = slices.Sorted(slices.Values(want))
		if !slices.Equal(got, want) || claim.Status.Allocation == nil {
			return fmt.Errorf("it is reserved for %v, want %v; allocation %+v", got, want, claim.Status.Allocation)
		}
		return nil
	}
}

// finish plays the kubelet of a pod that ends.
func finish(t *testing.T, pod *corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	patch := must.Get(json.Marshal(map[string]any{"status": map[string]any{"phase": phase}}))(t)
	must.Get(admin.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"))(t)
}
