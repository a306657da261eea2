package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

const (
	claimFinalizer = "kubernetes.io/pvc-protection"
	claimAccount   = "system:serviceaccount:kube-system:pvc-protection-controller"
)

// Whether the first claim is still held is looked at when a second one, deleted later, is gone.
//
// Pins PVCP-2, PVCP-15, PVCP-19, PVCP-21 and PVCP-37.
func TestAClaimStaysWhileAPodUsesIt(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	created := createClaim(t, namespace, "used")
	if !slices.Contains(created.Finalizers, claimFinalizer) {
		t.Fatalf("the API server did not protect the claim: %q", created.Finalizers)
	}
	createPod(t, namespace, "user", using("used"))
	deleteClaim(t, namespace, "used")
	stillHeld := func(n int) {
		t.Helper()
		name := fmt.Sprint("unused-", n)
		createClaim(t, namespace, name)
		deleteClaim(t, namespace, name)
		awaitClaimGone(t, namespace, name)
		isHeld(t, namespace, "used")
	}
	stillHeld(1)

	createPod(t, namespace, "second", using("used"), unscheduled)
	cluster.DeletePodNow(t, namespace, "second")
	stillHeld(2)

	cluster.PatchPodStatus(t, namespace, "user", map[string]any{"phase": corev1.PodSucceeded})
	stillHeld(3)

	cluster.DeletePodNow(t, namespace, "user")
	awaitClaimGone(t, namespace, "used")
}

// Pins PVCP-18 and PVCP-21.
func TestAPodThatIsNotScheduledHoldsNoClaim(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	createClaim(t, namespace, "claim")
	createPod(t, namespace, "waiting", using("claim"), unscheduled)
	deleteClaim(t, namespace, "claim")
	awaitClaimGone(t, namespace, "claim")
}

// Pins PVCP-4 and PVCP-16.
func TestAClaimIsProtectedAgain(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	claims := admin.CoreV1().PersistentVolumeClaims(namespace)
	createClaim(t, namespace, "claim")
	isProtectedAgain(t, claims, "claim", claimFinalizer)
	deleteClaim(t, namespace, "claim")
	awaitFinalizers(t, claims, "claim", "example.com/other")
	end(t, claims, "claim")
}

// The pod of a generic ephemeral volume holds its claim until it has been shut down. Pins PVCP-20 and PVCP-31.
func TestAClaimOfAnEphemeralVolumeGoesBeforeItsPod(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	pod := createPod(t, namespace, "web", withEphemeral("scratch"), func(p *corev1.Pod) { p.Finalizers = []string{harness.Hold} })
	t.Cleanup(func() {
		_, _ = admin.CoreV1().Pods(namespace).Patch(context.Background(), "web", types.MergePatchType, []byte(harness.NoFinalizers), metav1.PatchOptions{})
	})
	awaitClaimOf(t, pod, "scratch")
	deleteClaim(t, namespace, "web-scratch")
	createClaim(t, namespace, "later")
	deleteClaim(t, namespace, "later")
	awaitClaimGone(t, namespace, "later")
	isHeld(t, namespace, "web-scratch")

	cluster.DeletePodNow(t, namespace, "web") // which the finalizer keeps
	awaitClaimGone(t, namespace, "web-scratch")
	must.Get(admin.CoreV1().Pods(namespace).Get(t.Context(), "web", metav1.GetOptions{}))(t)
}

// Pins PVCP-10, PVCP-12 and PVCP-44.
func TestManyClaimsThatAreDeletedShareLists(t *testing.T) {
	t.Parallel()
	const count = 60
	namespace := cluster.Namespace(t)
	createClaim(t, namespace, "used")
	createPod(t, namespace, "user", using("used"))
	for n := range count {
		createClaim(t, namespace, fmt.Sprint("claim-", n))
	}
	from := must.Get(cluster.Audit().Mark())(t)
	must.Succeed(t, admin.CoreV1().PersistentVolumeClaims(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	await.That(t, "only the claim that is used is left", func(ctx context.Context) error {
		list, err := admin.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("%d are left", len(list.Items))
		}
		return err
	})
	isHeld(t, namespace, "used")
	requests := must.Get(cluster.Audit().Since(from, controlplane.ByUser(claimAccount), controlplane.ByNamespace(namespace)))(t)
	lists, puts := 0, 0
	for _, e := range requests {
		switch {
		case e.Verb == "list" && strings.Contains(e.RequestURI, "fieldSelector=spec.nodeName%21%3D"):
			lists++
		case e.Verb == "update" && e.ObjectRef.Resource == "persistentvolumeclaims":
			puts++
		default:
			t.Errorf("%s %s", e.Verb, e.RequestURI)
		}
	}
	if puts != count || lists == 0 || lists > count/2 {
		t.Errorf("%d updates and %d lists for %d claims", puts, lists, count)
	}
}

// The condition is shown, and changes with the pods. It does not change what holds a claim.
//
// Pins PVCP-22, PVCP-23 and PVCP-24.
func TestAClaimShowsSinceWhenItIsUnused(t *testing.T) {
	namespace := cluster.Namespace(t)
	createClaim(t, namespace, "claim")
	cluster.Emulate(t, cluster.Manager.Config().EmulatedVersion, map[string]bool{"PersistentVolumeClaimUnusedSinceTime": true})
	unused := func(status corev1.ConditionStatus, reason, message string) {
		t.Helper()
		await.That(t, "Unused is "+string(status), func(ctx context.Context) error {
			claim, err := admin.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, "claim", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, c := range claim.Status.Conditions {
				if c.Type == corev1.PersistentVolumeClaimUnused && c.Status == status && c.Reason == reason && c.Message == message && !c.LastTransitionTime.IsZero() {
					return nil
				}
			}
			return fmt.Errorf("the conditions are %+v", claim.Status.Conditions)
		})
	}
	unused("True", "NoPodsUsingPVC", "No pods are currently referencing this PVC")
	createPod(t, namespace, "waiting", using("claim"), unscheduled)
	unused("False", "PodUsingPVC", "A pod is currently referencing this PVC")
	createPod(t, namespace, "user", using("claim"))
	cluster.DeletePodNow(t, namespace, "waiting")
	cluster.PatchPodStatus(t, namespace, "user", map[string]any{"phase": corev1.PodFailed})
	unused("True", "NoPodsUsingPVC", "No pods are currently referencing this PVC")
	deleteClaim(t, namespace, "claim")
	createClaim(t, namespace, "later")
	deleteClaim(t, namespace, "later")
	awaitClaimGone(t, namespace, "later")
	isHeld(t, namespace, "claim")
	cluster.DeletePodNow(t, namespace, "user")
	awaitClaimGone(t, namespace, "claim")
}
