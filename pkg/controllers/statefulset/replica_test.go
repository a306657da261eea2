package statefulset

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// Pins STS-62.
func TestPodsAreDeletedByUID(t *testing.T) {
	for name, answer := range map[string]error{
		"deleted": nil,
		"gone":    apierrors.NewNotFound(pods.Resource, "web-0"),
	} {
		f := settled(t, 1, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](0) })
		f.Fake.PrependReactor("delete", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
			options := action.(ktesting.DeleteActionImpl).DeleteOptions
			if options.Preconditions == nil || *options.Preconditions.UID != "web-0" {
				t.Errorf("%s: deleted with %+v", name, options)
			}
			return answer != nil, nil, answer
		})
		f.MustReconcile(t)
		f.WantEvents(t, "Normal SuccessfulDelete Delete Pod web-0 in StatefulSet web successful")
	}
}

// Usually another pod has the name by now. Nothing else says that there will be an event: an admission
// webhook may answer so too.
func TestADeletionThatConflictsIsTriedAgainAndNotReported(t *testing.T) {
	f := settled(t, 1, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](0) })
	f.Refuse("delete pods", apierrors.NewConflict(pods.Resource, "web-0", errors.New("other UID")))
	for range 2 {
		if err := f.Reconcile(); !reconcile.IsExpected(err) {
			t.Errorf("got %v", err)
		}
		f.WantRequestsInAnyOrder(t, "delete pods web-0")
		f.WantEvents(t)
	}
}

func TestAFailedDeletionIsTriedAgain(t *testing.T) {
	for name, refusal := range map[string]error{
		"refused": &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusForbidden, Message: "no"}},
		"WL-117: the answer of a proxy": apierrors.NewGenericServerResponse(
			http.StatusNotFound, "delete", pods.Resource, "web-0", "404 page not found", 0, true),
	} {
		t.Run(name, func(t *testing.T) {
			f := settled(t, 1, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](0) })
			f.Refuse("delete pods", refusal)
			for range 2 {
				if err := f.Reconcile(); !errors.Is(err, refusal) {
					t.Errorf("got %v", err)
				}
				f.WantRequestsInAnyOrder(t, "delete pods web-0")
				f.WantEvents(t, "Warning FailedDelete Delete Pod web-0 in StatefulSet web failed error: "+refusal.Error())
			}
		})
	}
}

func TestAPodThatCannotBeCreated(t *testing.T) {
	going := apierrors.NewForbidden(pods.Resource, "web-0", errors.New("going"))
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, test := range map[string]struct{ refusal, status error }{
		"STS-30: the status is written":                      {errTest, nil},
		"STS-30: an error of that is the lesser one":         {errTest, errors.New("nor the status")},
		"STS-56: a namespace that is going away is no other": {going, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newSet(1))
			f.Refuse("create pods", test.refusal)
			if test.status != nil {
				f.Refuse("update statefulsets/status", test.status)
			}
			if err := f.Reconcile(); err == nil || err.Error() != test.refusal.Error() {
				t.Errorf("got %v", err)
			}
			if requests := f.Requests(); !slices.Contains(requests, putStatus) {
				t.Errorf("requests are %q", requests)
			}
			f.WantEvents(t, "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: "+test.refusal.Error())
		})
	}
}

// It is unknown whether the pod was deleted, and another one might be chosen now. Pins WL-97.
func TestADeletionWithoutAnAnswerIsWaitedForAWhile(t *testing.T) {
	f := settled(t, 1, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](0) })
	f.Refuse("delete pods", errTest)
	if err := f.Reconcile(); !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
	f.WantRequestsInAnyOrder(t, "delete pods web-0")
	f.Queued.Clear()
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t)
	wait := f.Queued.TakeDelay(key)
	if wait <= 0 || wait > reconcile.RecheckAfter {
		t.Errorf("it is looked at again in %v", wait)
	}
	f.Clock.Step(wait)
	if err := f.Reconcile(); !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
	f.WantRequestsInAnyOrder(t, "delete pods web-0")
}

// A quota that is updated by others answers so. Pins WL-102.
// Pins STS-33.
func TestExistingPodIsNoNews(t *testing.T) {
	set := newSet(1)
	f := newFixture(t, set)
	f.Refuse("create pods", apierrors.NewAlreadyExists(pods.Resource, "web-0"))
	if err := f.c.createPod(f.Context(), set, newPod(set, "r", 0)); !apierrors.IsAlreadyExists(err) {
		t.Errorf("got %v", err)
	}
	f.WantEvents(t)
}

// Pins STS-25d.
// Its cached state is not acted upon twice. Pins STS-3.
func TestNothingIsDoneUntilTheCacheShowsAPatchedPod(t *testing.T) {
	f := settled(t, 1)
	bare := podAt(newSet(1), revisionAt(t, 1).Name, 0, func(pod *corev1.Pod) { delete(pod.Labels, appsv1.StatefulSetPodNameLabel) })
	f.Store(t, bare)
	f.Cache(t, controllertest.Changed(bare.DeepCopy(), func(pod *corev1.Pod) { pod.ResourceVersion = "50" }))
	f.MustReconcile(t)
	f.WantRequests(t, "patch pods web-0")
	if err := f.Reconcile(); !reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
	}
	f.WantRequests(t)
}

// Pins STS-26 and STS-41.
func TestCondemnedPodsTakeTheirClaims(t *testing.T) {
	f := settled(t, 2, claims("data"), retention(retain, discard), func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](1) })
	revision := revisionAt(t, 1).Name
	set := newSet(2, claims("data"))
	f.Cache(t, claimFor("data-web-1"), podAt(set, revision, 0), podAt(set, revision, 1))
	if _, err := f.Fake.CoreV1().PersistentVolumeClaims("ns").Create(t.Context(), claimFor("data-web-1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.Requests()
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "update persistentvolumeclaims data-web-1", "delete pods web-1")
	claim, err := f.Fake.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "data-web-1", metav1.GetOptions{})
	if err != nil || describe(claim.OwnerReferences) != "Pod/web-1/true" {
		t.Errorf("%v, %v", claim, err)
	}
}

// A set was scaled down, and up again before the condemned pod was deleted. Whatever deletes the pod, its claim stays.
// Pins STS-70.
func TestPodsThatStayAfterAllReturnTheirClaims(t *testing.T) {
	set := newSet(3, claims("data"))
	revision := revisionAt(t, 1).Name
	const updateClaim = "update persistentvolumeclaims data-web-2"
	for name, test := range map[string]struct {
		first, last podChange
		change      setChange
		want, next  []string
	}{
		"another pod is waited for":   {notReady, phase(corev1.PodRunning), edited, []string{updateClaim}, nil},
		"it is not ready itself":      {phase(corev1.PodRunning), notReady, edited, []string{updateClaim}, nil},
		"it has failed":               {phase(corev1.PodRunning), phase(corev1.PodFailed), edited, []string{updateClaim}, []string{"delete pods web-2"}},
		"in any order":                {notReady, notReady, parallel, []string{updateClaim}, nil},
		"it is being deleted already": {notReady, terminating, edited, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := settled(t, 3, claims("data"), retention(retain, discard), test.change)
			claim := claimOwnedBy(ref("v1", "Pod", "web-2", "web-2", true))
			claim.Name = "data-web-2"
			f.Store(t, claim)
			f.Cache(t, claim, podAt(set, revision, 0, test.first), podAt(set, revision, 1), podAt(set, revision, 2, test.last))
			for _, want := range [][]string{test.want, test.next} {
				f.MustReconcile(t)
				got := slices.DeleteFunc(f.Requests(), func(request string) bool { return request == putStatus })
				if !slices.Equal(got, want) {
					t.Errorf("requests are %q, want %q", got, want)
				}
				f.Env.CatchUp(t, &appsv1.StatefulSet{}, &corev1.PersistentVolumeClaim{})
			}
			left := "Pod/web-2/true"
			if test.want != nil {
				left = ""
			}
			if stored := controllertest.MustStored[*corev1.PersistentVolumeClaim](t, f.Env, "ns", "data-web-2"); describe(stored.OwnerReferences) != left {
				t.Errorf("the owners are %q, want %q", describe(stored.OwnerReferences), left)
			}
		})
	}
}

// One of two claims is written, so that the reconcile ends, but the other one is not. Pins STS-73.
// The garbage collector would delete the claims of a slot that is to be filled. Pins STS-86.
func TestAPodThatHasFailedIsNotDeletedWithItsClaims(t *testing.T) {
	const updateClaim = "update persistentvolumeclaims data-web-2"
	set, revision := newSet(3, claims("data")), revisionAt(t, 1).Name
	for name, test := range map[string]struct {
		change  setChange
		refusal error
	}{
		"somebody else has written the claim": {edited, apierrors.NewConflict(claimResource, "data-web-2", errTest)},
		"a webhook refuses":                   {parallel, errTest},
		"it is not found":                     {edited, apierrors.NewNotFound(claimResource, "data-web-2")},
	} {
		t.Run(name, func(t *testing.T) {
			f := settled(t, 3, claims("data"), retention(retain, discard), test.change)
			claim := claimOwnedBy(ref("v1", "Pod", "web-2", "web-2", true))
			claim.Name = "data-web-2"
			f.Store(t, claim)
			f.Cache(t, claim, podAt(set, revision, 0), podAt(set, revision, 1), podAt(set, revision, 2, phase(corev1.PodFailed)))
			allow := f.Refuse(updateClaim, test.refusal)
			_ = f.Reconcile()
			if got := f.Requests(); slices.Contains(got, "delete pods web-2") || !slices.Contains(got, updateClaim) {
				t.Errorf("requests are %q", got)
			}
			allow()
			for range 2 {
				f.Env.CatchUp(t, &appsv1.StatefulSet{}, &corev1.PersistentVolumeClaim{})
				f.MustReconcile(t)
			}
			if got := f.Requests(); !slices.Contains(got, "delete pods web-2") {
				t.Errorf("requests are %q", got)
			}
		})
	}
}

// An admission webhook may answer like this, too. Then no event follows, and nothing has been written. Pins STS-74.
// The claim may be deleted before the cache shows that it was written. Its slot is not to be filled, so that no event
// enqueues the set, which has not done anything else yet. Pins STS-78.
func TestTheReconcileGoesOnAlthoughAClaimThatLostItsOwnersIsDeleted(t *testing.T) {
	f := settled(t, 3, claims("data"), retention(retain, retain))
	claim := claimOwnedBy(bySet)
	claim.Name = "data-web-7"
	f.Store(t, claim)
	f.Cache(t, claim)
	f.MustReconcile(t)
	f.WantRequests(t, "update persistentvolumeclaims data-web-7")
	if wait := f.Queued.TakeDelay(key); wait != reconcile.RecheckAfter {
		t.Errorf("it goes on in %v", wait)
	}
}

// An admission webhook keeps the owner of a claim, whatever is sent. Pins STS-87.
func TestTheReconcileGoesOnAlthoughAClaimKeepsItsOwners(t *testing.T) {
	f := settled(t, 3, claims("data"), retention(retain, retain), func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](4) })
	claim := claimOwnedBy(bySet)
	claim.Name = "data-web-7"
	f.Store(t, claim)
	f.Cache(t, claim)
	f.Fake.PrependReactor("update", "persistentvolumeclaims", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, claim.DeepCopy(), nil
	})
	f.MustReconcile(t)
	if got := f.Requests(); !slices.Contains(got, "create pods web-3") {
		t.Errorf("requests are %q", got)
	}
}

// The next deletion of the set, or of the pod, would delete a claim that is to be retained by now. Pins STS-73.
// Pins STS-25d.
// Pins STS-25g and STS-34.
func TestAdoptedPodsGetTheIdentityOfTheirSlot(t *testing.T) {
	f := settled(t, 1)
	set := newSet(1)
	f.Cache(t, podAt(set, revisionAt(t, 1).Name, 0, orphaned, func(p *corev1.Pod) {
		delete(p.Labels, appsv1.StatefulSetPodNameLabel)
	}))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "get statefulsets web", "patch pods web-0", "patch pods web-0")
	f.WantEvents(t, "Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful")
}

// Pins STS-34.
func TestVolumesOfALivePodCannotChange(t *testing.T) {
	f := settled(t, 1, claims("data"))
	f.Refuse("patch pods", errTest)
	if err := f.Reconcile(); !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
	f.WantEvents(t,
		"Normal SuccessfulCreate Create Claim data-web-0 Pod web-0 in StatefulSet web success",
		"Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: no")
}

// Pins STS-17.
func TestForeignNamesAndLabelsAreReleased(t *testing.T) {
	f := settled(t, 1)
	set := newSet(1)
	f.Cache(t,
		podAt(set, "r", 5, func(p *corev1.Pod) { p.Name = "other-5" }),
		podAt(set, "r", 6, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "b"} }),
		podAt(set, "r", 7, orphaned, func(p *corev1.Pod) { p.Name = "other-7" }))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "patch pods other-5", "patch pods web-6")
}

// Neither is news, and all else of a pod stays. Pins WL-25.
func TestAdoptionAndReleaseChangeOwnersOnly(t *testing.T) {
	f := settled(t, 1)
	was := []*corev1.Pod{
		podAt(newSet(1), revisionAt(t, 1).Name, 0, orphaned),
		podAt(newSet(1), "r", 6, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "b"} }),
	}
	for _, pod := range was {
		f.Store(t, pod.DeepCopy())
		f.Cache(t, pod)
	}
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "get statefulsets web", "patch pods web-0", "patch pods web-6")
	f.WantEvents(t)
	for i, pod := range was {
		is := controllertest.MustStored[*corev1.Pod](t, f.Env, "ns", pod.Name)
		if owned := len(is.OwnerReferences) > 0; owned != (i == 0) {
			t.Errorf("%s is owned by %v", pod.Name, is.OwnerReferences)
		}
		if !maps.Equal(is.Labels, pod.Labels) || !maps.Equal(is.Annotations, pod.Annotations) || !apiequality.Semantic.DeepEqual(is.Spec, pod.Spec) {
			t.Errorf("got %+v, had %+v", is, pod)
		}
	}
}
