package statefulset

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/pods"
)

func TestPodsAreDeletedByUID(t *testing.T) {
	for name, answer := range map[string]error{
		"deleted":   nil,
		"gone":      apierrors.NewNotFound(pods.Resource, "web-0"),
		"recreated": apierrors.NewConflict(pods.Resource, "web-0", errors.New("other UID")),
	} {
		f := settled(t, 1, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](0) })
		f.env.Fake.PrependReactor("delete", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
			options := action.(ktesting.DeleteActionImpl).DeleteOptions
			if options.Preconditions == nil || *options.Preconditions.UID != "web-0" {
				t.Errorf("%s: deleted with %+v", name, options)
			}
			return answer != nil, nil, answer
		})
		f.mustReconcile(t)
		f.wantEvents(t, "Normal SuccessfulDelete Delete Pod web-0 in StatefulSet web successful")
	}
}

func TestAFailedDeletionIsTriedAgain(t *testing.T) {
	f := settled(t, 1, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](0) })
	f.fail("delete", "pods", errTest)
	for range 2 {
		if err := f.reconcile(f.env.Context(), key); !errors.Is(err, errTest) {
			t.Errorf("got %v", err)
		}
		f.wantRequests(t, "delete pods web-0")
		f.wantEvents(t, "Warning FailedDelete Delete Pod web-0 in StatefulSet web failed error: no")
	}
}

func TestClaimProblems(t *testing.T) {
	deleted := claimOwnedBy()
	deleted.Name, deleted.DeletionTimestamp, deleted.Finalizers = "data-web-0", &metav1.Time{Time: start}, []string{"x"}
	stale := claimOwnedBy(ref("v1", "Pod", "web-0", "old", true))
	stale.Name = "data-web-0"
	for _, test := range []struct {
		name   string
		policy setChange
		claim  *corev1.PersistentVolumeClaim
		fail   bool
		err    string
		events []string
		want   []string
	}{
		{"claim cannot be created", retention(retain, retain), nil, true, "failed to create PVC data-web-0: no", []string{
			"Warning FailedCreate Create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: no",
			"Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: no",
		}, []string{"create persistentvolumeclaims data-web-0"}},
		{"claim is being deleted", retention(retain, retain), deleted, false, "pvc data-web-0 is being deleted", []string{
			"Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted",
		}, nil},
		{"claim is of an earlier pod", retention(retain, discard), stale, false, "", nil, nil},
		{"claim is of an earlier pod, retained", retention(discard, retain), stale, false, "", []string{
			"Warning ConflictingController PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim",
			"Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
		}, []string{createWeb0}},
		{"claim exists without owner", retention(discard, retain), claimFor("data-web-0"), false, "", []string{
			"Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
		}, []string{createWeb0, "update persistentvolumeclaims data-web-0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			revision := revisionAt(t, 1)
			set := newSet(1, claims("data"), test.policy)
			set.Status = appsv1.StatefulSetStatus{ObservedGeneration: 1, CurrentRevision: revision.Name, UpdateRevision: revision.Name}
			objects := []runtime.Object{set, revision}
			if test.claim != nil {
				objects = append(objects, test.claim.DeepCopy())
			}
			f := newFixture(t, objects...)
			if test.fail {
				f.fail("create", "persistentvolumeclaims", errTest)
			}
			err := f.reconcile(f.env.Context(), key)
			if text := fmt.Sprint(err); text != test.err && (err != nil || test.err != "") {
				t.Errorf("got %v, want %q", err, test.err)
			}
			f.wantEvents(t, test.events...)
			f.wantRequests(t, test.want...)
		})
	}
}

func claimFor(name string) *corev1.PersistentVolumeClaim {
	claim := claimOwnedBy()
	claim.Name = name
	return claim
}

func TestOwnersOfClaimsThatFail(t *testing.T) {
	set := newSet(1, claims("data"), retention(discard, retain))
	f := newFixture(t, set, claimFor("data-web-0"))
	f.fail("update", "persistentvolumeclaims", errTest)
	err := f.createPod(f.env.Context(), set, newPod(set, "r", 0))
	if !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
	f.wantEvents(t, "Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: could not update claim data-web-0 for delete policy ownerRefs: no")
}

func TestExistingPodIsNoNews(t *testing.T) {
	set := newSet(1)
	f := newFixture(t, set)
	f.fail("create", "pods", apierrors.NewAlreadyExists(pods.Resource, "web-0"))
	if err := f.createPod(f.env.Context(), set, newPod(set, "r", 0)); !apierrors.IsAlreadyExists(err) {
		t.Errorf("got %v", err)
	}
	f.wantEvents(t)
}

func TestCondemnedPodsTakeTheirClaims(t *testing.T) {
	f := settled(t, 2, claims("data"), retention(retain, discard), func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](1) })
	revision := revisionAt(t, 1).Name
	set := newSet(2, claims("data"))
	f.cache(t, claimFor("data-web-1"), podAt(set, revision, 0), podAt(set, revision, 1))
	if _, err := f.env.Fake.CoreV1().PersistentVolumeClaims("ns").Create(t.Context(), claimFor("data-web-1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.requests()
	f.mustReconcile(t)
	f.wantRequests(t, "update persistentvolumeclaims data-web-1", "delete pods web-1")
	claim, err := f.env.Fake.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "data-web-1", metav1.GetOptions{})
	if err != nil || describe(claim.OwnerReferences) != "Pod/web-1/true" {
		t.Errorf("%v, %v", claim, err)
	}
}

func TestPendingPodsGetMissingClaims(t *testing.T) {
	f := settled(t, 1, claims("data"))
	set := newSet(1, claims("data"))
	f.cache(t, podAt(set, revisionAt(t, 1).Name, 0, phase(corev1.PodPending), notReady))
	f.mustReconcile(t)
	f.wantRequests(t, "create persistentvolumeclaims data-web-0", putStatus)
}

func TestAdoptedPodsGetTheIdentityOfTheirSlot(t *testing.T) {
	f := settled(t, 1)
	set := newSet(1)
	f.cache(t, podAt(set, revisionAt(t, 1).Name, 0, orphaned, func(p *corev1.Pod) {
		delete(p.Labels, appsv1.StatefulSetPodNameLabel)
	}))
	f.mustReconcile(t)
	f.wantRequests(t, "get statefulsets web", "patch pods web-0", "patch pods web-0")
	f.wantEvents(t, "Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful")
}

func TestVolumesOfALivePodCannotChange(t *testing.T) {
	f := settled(t, 1, claims("data"))
	f.fail("patch", "pods", errTest)
	if err := f.reconcile(f.env.Context(), key); !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
	f.wantEvents(t,
		"Normal SuccessfulCreate Create Claim data-web-0 Pod web-0 in StatefulSet web success",
		"Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: no")
}

func TestForeignNamesAndLabelsAreReleased(t *testing.T) {
	f := settled(t, 1)
	set := newSet(1)
	f.cache(t,
		podAt(set, "r", 5, func(p *corev1.Pod) { p.Name = "other-5" }),
		podAt(set, "r", 6, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "b"} }),
		podAt(set, "r", 7, orphaned, func(p *corev1.Pod) { p.Name = "other-7" }))
	f.mustReconcile(t)
	f.wantRequests(t, "patch pods other-5", "patch pods web-6")
}
