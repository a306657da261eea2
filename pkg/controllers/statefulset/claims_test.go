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
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

func TestClaimProblems(t *testing.T) {
	deleted := claimOwnedBy()
	deleted.Name, deleted.DeletionTimestamp, deleted.Finalizers = "data-web-0", &metav1.Time{Time: start}, []string{"x"}
	stale := claimOwnedBy(ref("v1", "Pod", "web-0", "old", true))
	stale.Name = "data-web-0"
	ofFormer := claimOwnedBy(staleSet)
	ofFormer.Name = "data-web-0"
	for _, test := range []struct {
		name   string
		policy setChange
		claim  *corev1.PersistentVolumeClaim
		fail   bool
		err    string
		events []string
		want   []string
	}{
		{"STS-33, STS-45: claim cannot be created", retention(retain, retain), nil, true, "failed to create PVC data-web-0: no", []string{
			"Warning FailedCreate Create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: no",
			"Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: no",
		}, []string{"create persistentvolumeclaims data-web-0"}},
		{"STS-33: claim is being deleted", retention(retain, retain), deleted, false, "pvc data-web-0 is being deleted", []string{
			"Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted",
		}, nil},
		{"STS-25c, STS-51: claim is of an earlier pod", retention(retain, discard), stale, false, "", nil, nil},
		{"STS-25c: claim is of an earlier pod, retained", retention(discard, retain), stale, false, "", []string{
			"Warning ConflictingController PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim",
			"Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
		}, []string{createWeb0}},
		{"STS-83: claim is of an earlier set", retention(discard, retain), ofFormer, false, "", nil, nil},
		{"STS-83: claim is of an earlier set, retained", retention(retain, discard), ofFormer, false, "", []string{
			"Warning ConflictingController PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim",
			"Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
		}, []string{createWeb0}},
		{"STS-33: claim exists without owner", retention(discard, retain), claimFor("data-web-0"), false, "", []string{
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
				f.Refuse("create persistentvolumeclaims", errTest)
			}
			err := f.Reconcile()
			if text := fmt.Sprint(err); text != test.err && (err != nil || test.err != "") {
				t.Errorf("got %v, want %q", err, test.err)
			}
			f.WantEvents(t, test.events...)
			f.WantRequestsInAnyOrder(t, test.want...)
		})
	}
}

func TestConflictsOfClaimsAreNoFailures(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("resourcequotas"), "q", errors.New("changed"))
	for name, test := range map[string]struct {
		second  error
		requeue bool
		err     string
	}{
		"all are conflicts": {conflict, true, "failed to create PVC data-web-0: " + conflict.Error()},
		"one is another":    {errTest, false, "failed to create PVC logs-web-0: no"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newSet(1, claims("data", "logs")))
			f.Refuse("create persistentvolumeclaims data-web-0", conflict)
			f.Refuse("create persistentvolumeclaims logs-web-0", test.second)
			if err := f.Reconcile(); reconcile.IsExpected(err) != test.requeue || err == nil || err.Error() != test.err {
				t.Errorf("got %v, want %q", err, test.err)
			}
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
	f.Refuse("update persistentvolumeclaims", errTest)
	err := f.c.createPod(f.Context(), set, newPod(set, "r", 0))
	if !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
	f.WantEvents(t, "Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: could not update claim data-web-0 for delete policy ownerRefs: no")
}

func TestAPendingPodWhoseClaimIsRefusedIsTriedAgain(t *testing.T) {
	f := settled(t, 1, parallel, claims("data"))
	f.Cache(t, podAt(newSet(1, claims("data")), revisionAt(t, 1).Name, 0, phase(corev1.PodPending), notReady))
	f.Refuse("create persistentvolumeclaims", errTest)
	if err := f.Reconcile(); err == nil {
		t.Error("no error")
	}
	f.WantRequestsInAnyOrder(t, "create persistentvolumeclaims data-web-0", putStatus)
}

func TestARefusedOwnerOfAClaimIsReportedBesideOneThatIsWritten(t *testing.T) {
	f := settled(t, 2, claims("data"), edited)
	for _, name := range []string{"web-0", "web-1"} {
		claim := claimOwnedBy(ref("v1", "Pod", name, types.UID(name), true))
		claim.Name = "data-" + name
		f.Store(t, claim)
		f.Cache(t, claim)
	}
	f.Refuse("update persistentvolumeclaims data-web-1", errTest)
	if err := f.Reconcile(); !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
	f.WantRequestsInAnyOrder(t, "update persistentvolumeclaims data-web-0", "update persistentvolumeclaims data-web-1", putStatus)
}

func TestAClaimThatIsNotFoundIsLookedAtAgain(t *testing.T) {
	set := newSet(3, claims("data"))
	revision := revisionAt(t, 1).Name
	f := settled(t, 3, claims("data"), retention(retain, discard))
	claim := claimOwnedBy(ref("v1", "Pod", "web-2", "web-2", true))
	claim.Name = "data-web-2"
	f.Store(t, claim)
	f.Cache(t, claim, podAt(set, revision, 0), podAt(set, revision, 1, phase(corev1.PodFailed)), podAt(set, revision, 2, notReady))
	f.Refuse("update persistentvolumeclaims", apierrors.NewNotFound(claimResource, "data-web-2"))
	f.MustReconcile(t)
	f.WantRequests(t, "update persistentvolumeclaims data-web-2", "delete pods web-1", putStatus)
	if wait := f.Queued.TakeDelay(key); wait != reconcile.RecheckAfter {
		t.Errorf("it is looked at again in %v", wait)
	}
}

func TestClaimsThatAreToBeRetainedLoseTheirOwnersAtOnce(t *testing.T) {
	const set, pod = "StatefulSet/o/true", "Pod/web-1/true"
	running := phase(corev1.PodRunning)
	for name, test := range map[string]struct {
		replicas    int32
		policy      setChange
		first, last podChange
		owner       metav1.OwnerReference
		want        string
	}{
		"another pod is waited for":                {2, retention(retain, retain), notReady, running, bySet, ""},
		"its pod is waited for":                    {2, retention(retain, retain), running, notReady, bySet, ""},
		"there is no policy any more":              {2, func(*appsv1.StatefulSet) {}, notReady, running, bySet, ""},
		"its pod is being deleted":                 {2, retention(retain, retain), running, terminating, bySet, ""},
		"its pod is not there":                     {2, retention(retain, retain), notReady, nil, bySet, ""},
		"its slot was scaled down":                 {1, retention(retain, retain), notReady, nil, bySet, ""},
		"its slot was scaled down, others own it":  {1, retention(retain, discard), notReady, nil, bySet, ""},
		"its slot was scaled down, the set stays":  {1, retention(discard, retain), notReady, nil, bySet, set},
		"its slot was scaled down, all may go":     {1, retention(discard, discard), notReady, nil, bySet, set},
		"its pod is condemned":                     {1, retention(retain, retain), notReady, running, byPod, ""},
		"its pod is condemned and being deleted":   {1, retention(retain, retain), notReady, terminating, byPod, ""},
		"its pod is condemned, the set stays":      {1, retention(discard, retain), notReady, running, byPod, set},
		"it is to be deleted with the set":         {2, retention(discard, retain), notReady, running, bySet, set},
		"its pod is condemned and it goes with it": {1, retention(retain, discard), notReady, running, byPod, pod},
		"its pod is to own it when it is its turn": {1, retention(discard, discard), notReady, running, bySet, set},
	} {
		t.Run(name, func(t *testing.T) {
			f := settled(t, test.replicas, claims("data"), test.policy, edited)
			made, revision := newSet(2, claims("data")), revisionAt(t, 1).Name
			claim := claimOwnedBy(test.owner)
			f.Store(t, claim)
			f.Cache(t, claim, podAt(made, revision, 0, test.first))
			if test.last == nil {
				f.Uncache(t, podAt(made, revision, 1))
			} else {
				f.Cache(t, podAt(made, revision, 1, test.last))
			}
			f.MustReconcile(t)
			stored := controllertest.MustStored[*corev1.PersistentVolumeClaim](t, f.Env, "ns", claim.Name)
			if got := describe(stored.OwnerReferences); got != test.want {
				t.Errorf("the owners are %q, want %q", got, test.want)
			}
		})
	}
}

func TestPendingPodsGetMissingClaims(t *testing.T) {
	f := settled(t, 1, claims("data"))
	set := newSet(1, claims("data"))
	f.Cache(t, podAt(set, revisionAt(t, 1).Name, 0, phase(corev1.PodPending), notReady))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create persistentvolumeclaims data-web-0", putStatus)
}
