package workloads

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// withClaims gives a set the claim template data. Nobody binds claims here, so its pods
// are not left to the scheduler.
func withClaims(policy *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.Template.Spec.NodeName = controlplane.NodeName(0)
		set.Spec.PersistentVolumeClaimRetentionPolicy = policy
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"tier": "db"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				StorageClassName: ptr.To("none"),
				Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}}
	}
}

// claimOwners waits until a claim is owned as told, like "StatefulSet/web".
func claimOwners(t *testing.T, namespace, claim, want string) {
	t.Helper()
	await.That(t, fmt.Sprintf("%s is owned by %q", claim, want), func(ctx context.Context) error {
		c, err := admin.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, claim, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, ref := range c.OwnerReferences {
			got = append(got, ref.Kind+"/"+ref.Name)
		}
		if strings.Join(got, " ") != want {
			return fmt.Errorf("it is owned by %q", got)
		}
		return nil
	})
}

func testSetClaims(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	set := createSet(t, namespace, 2, withClaims(nil))
	waitForCompleteSet(t, namespace, 2)
	for i := range 2 {
		name := fmt.Sprintf("data-web-%d", i)
		claim := must.Get(admin.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
		if claim.Labels["app"] != "web" || claim.Labels["tier"] != "db" || len(claim.OwnerReferences) != 0 {
			t.Errorf("%s is %+v", name, claim.ObjectMeta)
		}
		pod := must.Get(admin.CoreV1().Pods(namespace).Get(t.Context(), fmt.Sprintf("web-%d", i), metav1.GetOptions{}))(t)
		if v := pod.Spec.Volumes[0]; v.Name != "data" || v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ClaimName != name {
			t.Errorf("%s mounts %+v", pod.Name, pod.Spec.Volumes)
		}
	}
	cluster.WaitForEvent(t, namespace, set.UID, setEvent("Normal", "SuccessfulCreate", "Create Claim data-web-0 Pod web-0 in StatefulSet web success"))
	policy := func(deleted, scaled appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSet) {
		return func(set *appsv1.StatefulSet) {
			set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: deleted, WhenScaled: scaled}
		}
	}
	updateSet(t, namespace, policy("Delete", "Retain"))
	claimOwners(t, namespace, "data-web-0", "StatefulSet/web")
	claimOwners(t, namespace, "data-web-1", "StatefulSet/web")
	updateSet(t, namespace, policy("Retain", "Retain"))
	claimOwners(t, namespace, "data-web-0", "")
	claimOwners(t, namespace, "data-web-1", "")
	updateSet(t, namespace, setReplicas(0))
	waitForCompleteSet(t, namespace, 0)
	claimOwners(t, namespace, "data-web-1", "")
}

func testSetClaimsOfScaledDownPods(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	set := createSet(t, namespace, 2, withClaims(&appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Delete", WhenScaled: "Delete"}))
	waitForCompleteSet(t, namespace, 2)
	claimOwners(t, namespace, "data-web-1", "StatefulSet/web")
	updateSet(t, namespace, setReplicas(1))
	waitForCompleteSet(t, namespace, 1)
	claimOwners(t, namespace, "data-web-0", "StatefulSet/web")
	claimOwners(t, namespace, "data-web-1", "Pod/web-1")
	// The claim goes with the pod. The next pod of the slot waits until it has.
	updateSet(t, namespace, setReplicas(2))
	waitForSet(t, namespace, "the new size is observed", func(*appsv1.StatefulSet) error { return nil })
	claims := admin.CoreV1().PersistentVolumeClaims(namespace)
	old := must.Get(claims.Get(t.Context(), "data-web-1", metav1.GetOptions{}))(t)
	if err := claims.Delete(t.Context(), old.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().Pods(namespace).Get(t.Context(), "web-1", metav1.GetOptions{}); await.Gone(err) != nil {
		t.Errorf("the pod does not wait for its claim: %v", await.Gone(err))
	}
	// What protects claims that are in use may or may not have taken its finalizer off.
	_, err := claims.Patch(t.Context(), old.Name, types.MergePatchType, []byte(harness.NoFinalizers), metav1.PatchOptions{})
	if err != nil && await.Gone(err) != nil {
		t.Fatal(err)
	}
	waitForCompleteSet(t, namespace, 2)
	claimOwners(t, namespace, "data-web-1", "StatefulSet/web")
	if now := must.Get(claims.Get(t.Context(), "data-web-1", metav1.GetOptions{}))(t); now.UID == old.UID || set.UID != now.OwnerReferences[0].UID {
		t.Errorf("the claim is %+v", now.ObjectMeta)
	}
}

func testSetClaimsOfOthers(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	owner := must.Get(admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{}))(t)
	with := &appsv1.StatefulSet{}
	withClaims(nil)(with)
	claim := with.Spec.VolumeClaimTemplates[0].DeepCopy()
	claim.Name = "data-web-0"
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	must.Get(admin.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), claim, metav1.CreateOptions{}))(t)
	set := createSet(t, namespace, 1, withClaims(&appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Delete", WhenScaled: "Retain"}))
	waitForCompleteSet(t, namespace, 1)
	await.That(t, "the conflict is told", func(ctx context.Context) error {
		events, err := cluster.EventsOf(ctx, namespace, set.UID)
		if err == nil && !slices.Contains(events, setEvent("Warning", "ConflictingController", "PersistentVolumeClaim data-web-0 has a conflicting OwnerReference "+
			"that acts as a manging controller, the retention policy is ignored for this claim")) {
			err = fmt.Errorf("the events are %q", events)
		}
		return err
	})
	claimOwners(t, namespace, "data-web-0", "ConfigMap/owner")
}

func testSetAdoptsAndReleases(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	adopted := cluster.CreatePod(t, namespace, "web-0", "web", harness.OnNode(0))
	cluster.CreatePod(t, namespace, "stranger", "web", harness.OnNode(1))
	cluster.WaitForReadyPods(t, namespace, setLabels, 2)
	set := createSet(t, namespace, 2, func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	})
	waitForSet(t, namespace, "both pods are there", func(set *appsv1.StatefulSet) error {
		if s := set.Status; s.ReadyReplicas != 2 || s.UpdatedReplicas != 1 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	await.That(t, "the pod has the identity of its slot", func(ctx context.Context) error {
		p, err := admin.CoreV1().Pods(namespace).Get(ctx, "web-0", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.UID != adopted.UID {
			return await.Final(errors.New("it was replaced"))
		}
		owner := metav1.GetControllerOf(p)
		if owner == nil || owner.UID != set.UID || p.Labels["statefulset.kubernetes.io/pod-name"] != "web-0" || p.Labels["apps.kubernetes.io/pod-index"] != "0" {
			return fmt.Errorf("it is %+v", p.ObjectMeta)
		}
		return nil
	})
	cluster.WaitForEvent(t, namespace, set.UID, setEvent("Normal", "SuccessfulUpdate", "Update Pod web-0 in StatefulSet web successful"))
	stranger := must.Get(admin.CoreV1().Pods(namespace).Get(t.Context(), "stranger", metav1.GetOptions{}))(t)
	if len(stranger.OwnerReferences) != 0 {
		t.Errorf("the stranger is owned by %v", stranger.OwnerReferences)
	}
	// A pod that is released still has its name; the slot is filled when it is gone.
	cluster.PatchPod(t, namespace, "web-0", `{"metadata":{"labels":{"app":"other"}}}`)
	await.That(t, "the pod is released", func(ctx context.Context) error {
		p, err := admin.CoreV1().Pods(namespace).Get(ctx, "web-0", metav1.GetOptions{})
		if err == nil && len(p.OwnerReferences) > 0 {
			err = fmt.Errorf("it is owned by %v", p.OwnerReferences)
		}
		return err
	})
	cluster.DeletePodNow(t, namespace, "web-0")
	waitForCompleteSetOnDelete(t, namespace, 2)
}

// waitForCompleteSetOnDelete waits until all pods are ready and up to date. The strategy
// OnDelete never makes the update revision the current one.
func waitForCompleteSetOnDelete(t *testing.T, namespace string, n int32) {
	t.Helper()
	waitForSet(t, namespace, "all pods are up to date", func(set *appsv1.StatefulSet) error {
		if s := set.Status; s.ReadyReplicas != n || s.UpdatedReplicas != n {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
}

func testSetLeavesPodsOfDeletedSet(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	set := createSet(t, namespace, 2, func(set *appsv1.StatefulSet) { set.Finalizers = []string{harness.Hold} })
	waitForCompleteSet(t, namespace, 2)
	sets := admin.AppsV1().StatefulSets(namespace)
	if err := sets.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.DeletePodNow(t, namespace, "web-1")
	// The status still follows, and nothing is created.
	waitForSet(t, namespace, "one pod is left", func(set *appsv1.StatefulSet) error {
		if s := set.Status; s.Replicas != 1 || s.ReadyReplicas != 1 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	must.Get(sets.Patch(t.Context(), "web", types.MergePatchType, []byte(harness.NoFinalizers), metav1.PatchOptions{}))(t)
	// The next set of the name starts with what it finds.
	await.That(t, "the set is gone", func(ctx context.Context) error {
		_, err := sets.Get(ctx, "web", metav1.GetOptions{})
		return await.Gone(err)
	})
	cluster.PatchPod(t, namespace, "web-0", `{"metadata":{"ownerReferences":null}}`)
	again := createSet(t, namespace, 2, nil)
	waitForCompleteSet(t, namespace, 2)
	for _, p := range cluster.WaitForReadyPods(t, namespace, setLabels, 2) {
		if owner := metav1.GetControllerOf(&p); owner == nil || owner.UID != again.UID || again.UID == set.UID {
			t.Errorf("%s is owned by %v", p.Name, p.OwnerReferences)
		}
	}
}
