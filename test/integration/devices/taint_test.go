package devices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const (
	evicting = "device-taint-eviction-controller"
	broken   = "example.com/broken"
)

// users are pods of a namespace with a device each.
type users struct {
	t                 *testing.T
	namespace, driver string
	slice             *resourcev1.ResourceSlice
}

// usersOf makes a driver with devices and a class of them, and a namespace.
func usersOf(t *testing.T, driver string, devices int) *users {
	t.Helper()
	var names []string
	for n := range devices {
		names = append(names, fmt.Sprintf("device-%d", n))
	}
	u := &users{t: t, namespace: cluster.Namespace(t), driver: driver, slice: poolSlice(t, driver, "pool", "", 1, names...)}
	classes := admin.ResourceV1().DeviceClasses()
	must.Get(classes.Create(t.Context(), &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: driver},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{
			{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}},
		}},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = classes.Delete(context.Background(), driver, metav1.DeleteOptions{}) })
	return u
}

// run makes a pod with a claim of its name, and waits until a device was allocated to it. A finalizer
// keeps the pod when it is deleted. The claim tolerates the taint for some seconds; none is no toleration.
func (u *users) run(name string, tolerated ...int64) *corev1.Pod {
	u.t.Helper()
	request := resourcev1.DeviceRequest{Name: "device", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: u.driver}}
	for _, seconds := range tolerated {
		toleration := resourcev1.DeviceToleration{Key: broken, Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffectNoExecute}
		if seconds != withoutLimit {
			toleration.TolerationSeconds = ptr.To(seconds)
		}
		request.Exactly.Tolerations = []resourcev1.DeviceToleration{toleration}
	}
	claims := admin.ResourceV1().ResourceClaims(u.namespace)
	must.Get(claims.Create(u.t.Context(), &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{request}}},
	}, metav1.CreateOptions{}))(u.t)
	pod := cluster.CreatePod(u.t, u.namespace, name, "device", func(p *corev1.Pod) {
		p.Finalizers = []string{harness.Hold}
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &name}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "device"}}
	})
	u.t.Cleanup(func() {
		_, _ = admin.CoreV1().Pods(u.namespace).Patch(context.Background(), name, types.MergePatchType, []byte(harness.NoFinalizers), metav1.PatchOptions{})
	})
	await.That(u.t, name+" has a device", func(ctx context.Context) error {
		claim, err := claims.Get(ctx, name, metav1.GetOptions{})
		if err == nil && (len(claim.Status.ReservedFor) == 0 || u.get(name).Spec.NodeName == "") {
			err = errors.New("it has not")
		}
		return err
	})
	return pod
}

// withoutLimit is for run.
const withoutLimit = -1

// taint taints all devices, or none.
func (u *users) taint(taints ...resourcev1.DeviceTaint) {
	u.t.Helper()
	all := admin.ResourceV1().ResourceSlices()
	must.Succeed(u.t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		slice, err := all.Get(u.t.Context(), u.slice.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range slice.Spec.Devices {
			slice.Spec.Devices[i].Taints = taints
		}
		_, err = all.Update(u.t.Context(), slice, metav1.UpdateOptions{})
		return err
	}))
}

var isBroken = resourcev1.DeviceTaint{Key: broken, Effect: resourcev1.DeviceTaintEffectNoExecute}

func (u *users) get(name string) *corev1.Pod {
	u.t.Helper()
	return must.Get(admin.CoreV1().Pods(u.namespace).Get(u.t.Context(), name, metav1.GetOptions{}))(u.t)
}

// awaitEvicted waits until a pod is being deleted, and returns when its deletion was requested.
func (u *users) awaitEvicted(name string) (*corev1.Pod, time.Time) {
	u.t.Helper()
	var pod *corev1.Pod
	await.That(u.t, name+" is being deleted", func(context.Context) error {
		if pod = u.get(name); pod.DeletionTimestamp == nil {
			return errors.New("it is not")
		}
		return nil
	})
	return pod, pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
}

func (u *users) wantNotEvicted(name string) {
	u.t.Helper()
	if pod := u.get(name); pod.DeletionTimestamp != nil {
		u.t.Errorf("%s is evicted", name)
	}
}

// taintedAt is when the API server says that the devices were tainted.
func (u *users) taintedAt() time.Time {
	u.t.Helper()
	slice := must.Get(admin.ResourceV1().ResourceSlices().Get(u.t.Context(), u.slice.Name, metav1.GetOptions{}))(u.t)
	return slice.Spec.Devices[0].Taints[0].TimeAdded.Time
}

// Pins DTE-7, DTE-9, DTE-10, DTE-13, DTE-15, DTE-31 and DTE-32.
func TestPodsOfTaintedDevicesAreEvicted(t *testing.T) {
	t.Parallel()
	u := usersOf(t, "evict.example.com", 4)
	u.run("intolerant")
	u.run("patient", 5)
	u.run("tolerant", withoutLimit)
	late := u.run("late", 100_000)
	u.taint(resourcev1.DeviceTaint{Key: broken, Effect: resourcev1.DeviceTaintEffectNoSchedule})
	u.taint(isBroken)

	pod, _ := u.awaitEvicted("intolerant")
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	if i < 0 {
		t.Fatalf("conditions are %+v", pod.Status.Conditions)
	}
	if c := pod.Status.Conditions[i]; c.Status != corev1.ConditionTrue || c.Reason != "DeletionByDeviceTaintManager" || c.ObservedGeneration != 0 ||
		c.Message != "Device Taint manager: deleting due to NoExecute taint" {
		t.Errorf("the condition is %+v", c)
	}
	cluster.WaitForEvent(t, u.namespace, pod.UID, evicting+" Normal DeviceTaintManagerEviction: Marking for deletion")
	if _, at := u.awaitEvicted("patient"); at.Before(u.taintedAt().Add(5 * time.Second)) {
		t.Errorf("a pod was evicted at %v, tainted at %v", at, u.taintedAt())
	}
	u.wantNotEvicted("tolerant")
	u.wantNotEvicted("late")
	u.taint()
	cluster.WaitForEvent(t, u.namespace, late.UID, evicting+" Normal DeviceTaintManagerEviction: Cancelling deletion")
	u.wantNotEvicted("late")
}

// awaitCondition waits for the condition of a rule.
func awaitCondition(t *testing.T, name string, generation int64, reason, message string) {
	t.Helper()
	await.That(t, "the status says "+message, func(ctx context.Context) error {
		rule, err := admin.ResourceV1beta2().DeviceTaintRules().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(rule.Status.Conditions, "EvictionInProgress")
		if c == nil || len(rule.Status.Conditions) != 1 || c.ObservedGeneration != generation || c.Reason != reason || c.Message != message {
			return fmt.Errorf("it is %+v", rule.Status.Conditions)
		}
		return nil
	})
}

// taintByRule has a rule taint all devices of the driver.
func (u *users) taintByRule(effect resourcev1beta2.DeviceTaintEffect) *resourcev1beta2.DeviceTaintRule {
	u.t.Helper()
	rules := admin.ResourceV1beta2().DeviceTaintRules()
	rule := must.Get(rules.Create(u.t.Context(), &resourcev1beta2.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: u.driver},
		Spec: resourcev1beta2.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1beta2.DeviceTaintSelector{Driver: &u.driver},
			Taint:          resourcev1beta2.DeviceTaint{Key: broken, Effect: effect},
		},
	}, metav1.CreateOptions{}))(u.t)
	u.t.Cleanup(func() { _ = rules.Delete(context.Background(), rule.Name, metav1.DeleteOptions{}) })
	return rule
}

const predicted = " This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."

// A rule tells what it would do, does it, and tells what it has done.
// Pins DTE-7, DTE-16, DTE-24, DTE-25, DTE-27, DTE-28 and DTE-30.
func TestARuleEvictsPodsAndTellsOfIt(t *testing.T) {
	t.Parallel()
	u := usersOf(t, "rule.example.com", 5)
	var names []string
	for n := range 3 {
		names = append(names, fmt.Sprintf("pod-%d", n))
		u.run(names[n])
	}
	u.run("tolerant", withoutLimit)
	rule := u.taintByRule(resourcev1beta2.DeviceTaintEffectNone)
	awaitCondition(t, rule.Name, 1, "NoEffect",
		"5 published devices selected. 4 allocated devices selected. 3 pods would be evicted in 1 namespace if the effect was NoExecute."+predicted)
	rules := admin.ResourceV1beta2().DeviceTaintRules()
	must.Get(rules.Patch(t.Context(), rule.Name, types.MergePatchType, []byte(`{"spec":{"taint":{"effect":"NoExecute"}}}`), metav1.PatchOptions{}))(t)
	for _, name := range names {
		u.awaitEvicted(name)
	}
	awaitCondition(t, rule.Name, 2, "Completed", "3 pods evicted since starting the controller.")
	u.wantNotEvicted("tolerant")
}

// What counts down goes on whoever counts: an instance after an edit, and another process that knows
// nothing. Nothing is evicted early, and nothing is cancelled. Pins DTE-48, DTE-52 and DTE-58.
func TestCountdownsOfDevicesSurvive(t *testing.T) {
	u := usersOf(t, "restart.example.com", 3)
	names := []string{"after-reload", "after-takeover", "much-later"}
	var pods []*corev1.Pod
	for i, seconds := range []int64{6, 14, 100_000} {
		pods = append(pods, u.run(names[i], seconds))
	}
	u.taint(isBroken)
	before := harness.Instances(harness.Status(t, cluster.Manager))[evicting]
	harness.CarryOut(t, cluster.Manager, func(c *manager.Config) { c.Controllers.DeviceTaintEviction.ConcurrentSyncs = ptr.To[int32](4) })
	if after := harness.Instances(harness.Status(t, cluster.Manager))[evicting]; after == before {
		t.Errorf("the instance is the same: %+v", after)
	}
	if _, at := u.awaitEvicted(names[0]); at.Before(u.taintedAt().Add(6 * time.Second)) {
		t.Errorf("%s was evicted early, at %v", names[0], at)
	}
	u.wantNotEvicted(names[1])

	set := func(on bool) func(*manager.Config) {
		return func(c *manager.Config) { c.Controllers.DeviceTaintEviction.Enabled = &on }
	}
	harness.CarryOut(t, cluster.Manager, set(false))
	manager.Join(t, cluster.ControlPlane, runtime.Options{}, harness.All(harness.WithoutLease, func(c *manager.Config) { c.FeatureGates = gates },
		harness.Only(func(c *manager.Config) []**bool { return []**bool{&c.Controllers.DeviceTaintEviction.Enabled} })))
	if _, at := u.awaitEvicted(names[1]); at.Before(u.taintedAt().Add(14 * time.Second)) {
		t.Errorf("%s was evicted early, at %v", names[1], at)
	}
	u.wantNotEvicted(names[2])
	harness.Edit(t, cluster.Manager, set(true))
	for _, pod := range pods {
		events := must.Get(cluster.EventsOf(t.Context(), u.namespace, pod.UID))(t)
		if slices.ContainsFunc(events, func(event string) bool { return strings.Contains(event, "Cancelling") }) {
			t.Errorf("events of %s are %q", pod.Name, events)
		}
	}
}

// A pod that takes the name of one that was to be evicted is another pod. Pins DTE-13 and DTE-42.
func TestAnotherPodOfTheNameIsLeftAlone(t *testing.T) {
	t.Parallel()
	u := usersOf(t, "name.example.com", 2)
	u.run("pod", 4)
	u.taint(isBroken)
	cluster.PatchPod(t, u.namespace, "pod", harness.NoFinalizers)
	cluster.DeletePodNow(t, u.namespace, "pod")
	await.That(t, "the pod is gone", func(ctx context.Context) error {
		if _, err := admin.CoreV1().Pods(u.namespace).Get(ctx, "pod", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	another := cluster.CreatePod(t, u.namespace, "pod", "device", nil)
	u.taint()
	u.run("later", 6)
	u.taint(isBroken)
	u.awaitEvicted("later")
	if pod := u.get("pod"); pod.UID != another.UID || pod.DeletionTimestamp != nil {
		t.Errorf("the other pod is %+v", pod.ObjectMeta)
	}
}
