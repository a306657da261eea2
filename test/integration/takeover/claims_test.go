package takeover

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

func startClaims(t *testing.T) *faultproxy.Proxy {
	return startBehindProxy(t, func(c *manager.Config) **bool { return &c.Controllers.ResourceClaim.Enabled })
}

func deviceSpec() resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Name: "device", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "none"}},
	}}}
}

// podWithClaims creates a pod that nobody schedules, with two claims of a template, and the template.
func podWithClaims(t *testing.T, namespace string) {
	t.Helper()
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: deviceSpec()}}
	must.Get(plane.AdminClient().ResourceV1().ResourceClaimTemplates(namespace).Create(t.Context(), template, metav1.CreateOptions{}))(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: harness.PodSpec("web")}
	pod.Spec.SchedulerName = "nobody"
	for _, name := range []string{"a", "b"} {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: &template.Name})
	}
	must.Get(plane.AdminClient().CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
}

func awaitTwoRecorded(t *testing.T, namespace string) {
	t.Helper()
	await.That(t, "both claims are recorded", func(ctx context.Context) error {
		pod, err := plane.AdminClient().CoreV1().Pods(namespace).Get(ctx, "pod", metav1.GetOptions{})
		if err == nil && len(pod.Status.ResourceClaimStatuses) != 2 {
			err = fmt.Errorf("recorded are %+v", pod.Status.ResourceClaimStatuses)
		}
		return err
	})
}

func wantTwoClaims(t *testing.T, namespace string) {
	t.Helper()
	list := must.Get(plane.AdminClient().ResourceV1().ResourceClaims(namespace).List(t.Context(), metav1.ListOptions{}))(t)
	if len(list.Items) != 2 {
		t.Errorf("there are %d claims for two entries", len(list.Items))
	}
}

// The API server creates the claims, but the controller never learns that it did. Pins RCLM-50.
func TestAClaimWhoseCreationWasNotAnsweredIsNotCreatedAgain(t *testing.T) {
	namespace := plane.Namespace(t)
	proxy := startClaims(t)
	claims := faultproxy.Requests{Resource: resourcev1.Resource("resourceclaims")}
	held := proxy.HoldEvents(claims)
	creates := claims
	creates.Verbs = []string{"create"}
	lost := proxy.LoseAnswers(creates)
	podWithClaims(t, namespace)
	await.That(t, "answers are lost", func(context.Context) error {
		if lost.Hits() < 2 { // one of each claim
			return fmt.Errorf("%d are", lost.Hits())
		}
		return nil
	})
	lost.Lift()
	awaitTwoRecorded(t, namespace)
	wantTwoClaims(t, namespace)
	held.Lift()
}

// The pod changes again and again while the controller sees nothing of its claims. Pins RCLM-50.
func TestClaimsThatAreNotSeenAreNotCreatedAgain(t *testing.T) {
	namespace := plane.Namespace(t)
	proxy := startClaims(t)
	proxy.HoldEvents(faultproxy.Requests{Resource: resourcev1.Resource("resourceclaims")})
	podWithClaims(t, namespace)
	awaitTwoRecorded(t, namespace)
	for i := range 5 {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/n":"%d"}}}`, i)
		must.Get(plane.AdminClient().CoreV1().Pods(namespace).Patch(t.Context(), "pod", types.MergePatchType, patch, metav1.PatchOptions{}))(t)
	}
	// What comes later shows that the changes were seen.
	later := plane.Namespace(t)
	podWithClaims(t, later)
	awaitTwoRecorded(t, later)
	wantTwoClaims(t, namespace)
}

// The scheduler reserves a claim for a pod that the controller does not see yet. Pins RCLM-34.
func TestAReservationForAPodThatIsNotSeenStays(t *testing.T) {
	namespace := plane.Namespace(t)
	proxy := startClaims(t)
	pods := faultproxy.Requests{Resource: corev1.Resource("pods")}
	held := proxy.HoldEvents(pods)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: harness.PodSpec("web")}
	pod.Spec.SchedulerName, pod.Spec.ResourceClaims = "nobody", []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: ptr.To("claim")}}
	pod = must.Get(plane.AdminClient().CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	claims := plane.AdminClient().ResourceV1().ResourceClaims(namespace)
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim", Finalizers: []string{resourcev1.Finalizer}}, Spec: deviceSpec()}
	claim = must.Get(claims.Create(t.Context(), claim, metav1.CreateOptions{}))(t)
	claim.Status = resourcev1.ResourceClaimStatus{
		Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "device", Driver: "example.com", Pool: "pool", Device: "device"},
		}}},
		ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}},
	}
	must.Get(claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}))(t)
	asked := pods
	asked.Verbs, asked.Namespace, asked.Name = []string{"get"}, namespace, pod.Name
	await.That(t, "the controller asks for the pod", func(context.Context) error {
		if proxy.Seen(asked) == 0 {
			return errors.New("it did not")
		}
		return nil
	})
	held.Lift()
	if claim = must.Get(claims.Get(t.Context(), "claim", metav1.GetOptions{}))(t); len(claim.Status.ReservedFor) != 1 || claim.Status.Allocation == nil {
		t.Errorf("the status is %+v", claim.Status)
	}
	must.Succeed(t, plane.AdminClient().CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
	await.That(t, "the claim is free", func(ctx context.Context) error {
		claim, err := claims.Get(ctx, "claim", metav1.GetOptions{})
		if err == nil && (len(claim.Status.ReservedFor) > 0 || len(claim.Finalizers) > 0) {
			err = fmt.Errorf("reserved for %v, finalizers %v", claim.Status.ReservedFor, claim.Finalizers)
		}
		return err
	})
}
