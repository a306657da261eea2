package devices

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller/concurrent"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// A rule taints the devices of many pods. First it tells how many of them would be evicted, then it
// evicts all of them.
func TestARuleEvictsManyPods(t *testing.T) {
	const devicesPerSlice = 100 // at most 128 are allowed
	slices := harness.Size(t, "KCMD_DEVICE_SLICES", 2)
	pods := slices * devicesPerSlice
	driver := "many.example.com"
	u := &users{t: t, namespace: cluster.Namespace(t), driver: driver}
	for slice := range slices {
		var names []string
		for n := range devicesPerSlice {
			names = append(names, deviceName(slice*devicesPerSlice+n))
		}
		u.slice = poolSlice(t, driver, "pool", "", int64(slices), names...)
	}
	concurrent.Each(pods, 16, func(i int) {
		if err := u.allocate(t.Context(), i); err != nil {
			t.Errorf("allocating a device: %v", err)
		}
	})
	for i := range pods {
		createPod(t, u.namespace, podName(i), []corev1.PodResourceClaim{ofUser("device", podName(i))}, onGhost)
	}
	u.awaitPrediction(fmt.Sprintf("%[1]d published devices selected. %[1]d allocated devices selected. %[1]d pods would be evicted in 1 namespace if the effect was NoExecute.", pods) + predicted)

	began := time.Now()
	rules := admin.ResourceV1beta2().DeviceTaintRules()
	must.Get(rules.Patch(t.Context(), driver, types.MergePatchType, []byte(`{"spec":{"taint":{"effect":"NoExecute"}}}`), metav1.PatchOptions{}))(t)
	await.Within(t, 2*time.Minute, "all pods are being deleted", func(ctx context.Context) error {
		all, err := admin.CoreV1().Pods(u.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		left := 0
		for i := range all.Items {
			if all.Items[i].DeletionTimestamp == nil {
				left++
			}
		}
		if left > 0 {
			return fmt.Errorf("%d are not", left)
		}
		return nil
	})
	t.Logf("all pods were being deleted %v after the taint", time.Since(began).Round(time.Millisecond))
	awaitCondition(t, driver, 2, "Completed", fmt.Sprintf("%d pods evicted since starting the controller.", pods))
}

func deviceName(i int) string { return fmt.Sprint("device-", i) }
func podName(i int) string    { return fmt.Sprint("pod-", i) }

// allocate makes a claim for a pod with a device allocated to it. resourceclaim-controller reserves it
// for the pod, which no scheduler places.
func (u *users) allocate(ctx context.Context, i int) error {
	claims := admin.ResourceV1().ResourceClaims(u.namespace)
	claim, err := claims.Create(ctx, &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: podName(i), Finalizers: []string{resourcev1.Finalizer}}, Spec: oneOf("none"),
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "device", Driver: u.driver, Pool: "pool", Device: deviceName(i)}},
	}}
	_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// awaitPrediction creates a rule without an effect, and waits until it tells what it would do. It is
// told once: while the controller does not know of all pods, the rule is created again.
func (u *users) awaitPrediction(want string) {
	u.t.Helper()
	rules := admin.ResourceV1beta2().DeviceTaintRules()
	u.taintByRule(resourcev1beta2.DeviceTaintEffectNone)
	await.That(u.t, "the rule tells of all pods", func(ctx context.Context) error {
		rule, err := rules.Get(ctx, u.driver, metav1.GetOptions{})
		if err != nil || len(rule.Status.Conditions) == 0 {
			return errors.Join(errors.New("it tells nothing"), err)
		}
		told := rule.Status.Conditions[0].Message
		if told == want {
			return nil
		}
		must.Succeed(u.t, rules.Delete(ctx, u.driver, metav1.DeleteOptions{}))
		u.taintByRule(resourcev1beta2.DeviceTaintEffectNone)
		return fmt.Errorf("it tells: %s", told)
	})
}
