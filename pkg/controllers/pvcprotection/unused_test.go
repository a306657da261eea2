package pvcprotection

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

const putStatus = "update persistentvolumeclaims/status claim"

// condition adds the condition Unused to a claim, between two other conditions.
func condition(status corev1.ConditionStatus) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
			{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue},
			{Type: corev1.PersistentVolumeClaimUnused, Status: status, Reason: "Old", LastProbeTime: metav1.NewTime(time.Unix(1, 0))},
			{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue},
		}
	}
}

func TestTheConditionUnused(t *testing.T) {
	var (
		isTrue  = "Unused=True NoPodsUsingPVC: No pods are currently referencing this PVC 2026-01-02 03:04:05"
		isFalse = "Unused=False PodUsingPVC: A pod is currently referencing this PVC 2026-01-02 03:04:05"
	)
	for name, tc := range map[string]struct {
		claim  func(*corev1.PersistentVolumeClaim)
		used   bool
		want   string
		writes bool
	}{
		"PVCP-24: none, used":      {func(*corev1.PersistentVolumeClaim) {}, true, isFalse, true},
		"PVCP-24: none, unused":    {func(*corev1.PersistentVolumeClaim) {}, false, isTrue, true},
		"PVCP-24: True, used":      {condition(corev1.ConditionTrue), true, isFalse, true},
		"PVCP-24: True, unused":    {condition(corev1.ConditionTrue), false, "", false},
		"PVCP-24: False, used":     {condition(corev1.ConditionFalse), true, "", false},
		"PVCP-24: False, unused":   {condition(corev1.ConditionFalse), false, isTrue, true},
		"PVCP-24: Unknown, used":   {condition(corev1.ConditionUnknown), true, "", false},
		"PVCP-24: Unknown, unused": {condition(corev1.ConditionUnknown), false, isTrue, true},
		"PVCP-24: of others, used": {func(c *corev1.PersistentVolumeClaim) { condition("")(c); c.Status.Conditions = c.Status.Conditions[:1] }, true, isFalse, true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{claim("claim", tc.claim)}
			if tc.used {
				objects = append(objects, pod("p"))
			}
			f := begin(t, config{unusedSince: true}, objects...)
			f.MustReconcile(t)
			var want []string
			if !tc.used && tc.want != "" || name == "PVCP-24: none, unused" {
				want = append(want, list)
			}
			if tc.writes {
				want = append(want, putStatus)
			}
			f.WantRequests(t, want...)
			if !tc.writes {
				return
			}
			stored := controllertest.MustStored[*corev1.PersistentVolumeClaim](t, f.Env, namespace, "claim").Status.Conditions
			before := claim("claim", tc.claim).Status.Conditions
			i := slices.IndexFunc(stored, func(c corev1.PersistentVolumeClaimCondition) bool { return c.Type == "Unused" })
			if len(before) == 3 && i != 1 || len(before) < 3 && i != len(before) || len(stored) != max(len(before), i+1) {
				t.Errorf("conditions are %+v", stored)
			}
			c := stored[i]
			if got := fmt.Sprintf("%s=%s %s: %s %s", c.Type, c.Status, c.Reason, c.Message, c.LastTransitionTime.UTC().Format(time.DateTime)); got != tc.want || !c.LastProbeTime.IsZero() {
				t.Errorf("the condition is %s, probed at %v", got, c.LastProbeTime)
			}
		})
	}
}

// Pins PVCP-26.
func TestWithoutTheGateThereIsNoCondition(t *testing.T) {
	f := begin(t, config{}, claim("claim"))
	f.MustReconcile(t)
	f.WantRequests(t)
}

// Pins PVCP-22.
func TestAClaimThatIsDeletedKeepsItsCondition(t *testing.T) {
	f := begin(t, config{unusedSince: true}, claim("claim", deleted, condition(corev1.ConditionFalse)))
	f.MustReconcile(t)
	f.WantRequests(t, list, put)
}

// Pins PVCP-48.
func TestTheFinalizerIsAddedToTheClaimWithItsCondition(t *testing.T) {
	f := begin(t, config{unusedSince: true}, claim("claim", unprotected), pod("p"))
	f.MustReconcile(t)
	f.WantRequests(t, putStatus, put)
}

// Pins PVCP-24.
func TestAFailedWriteOfTheConditionEndsThePass(t *testing.T) {
	f := begin(t, config{unusedSince: true}, claim("claim", unprotected), pod("p"))
	f.RefuseIf(putStatus, errors.New("boom"), func(n int) bool { return n == 1 })
	if err := f.Reconcile(); err == nil {
		t.Error("no error")
	}
	f.WantRequests(t, putStatus)
	f.MustReconcile(t)
	f.WantRequests(t, putStatus, put)
}

// Pins PVCP-23 and PVCP-46.
func TestAPodThatTheCacheDoesNotShowCountsForTheCondition(t *testing.T) {
	f := begin(t, config{unusedSince: true}, claim("claim"))
	f.Store(t, pod("p", unscheduled))
	if err := f.Reconcile(); !reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
	}
	f.WantRequests(t, list, putStatus)
	stored := controllertest.MustStored[*corev1.PersistentVolumeClaim](t, f.Env, namespace, "claim")
	if unusedCondition(stored).Status != corev1.ConditionFalse {
		t.Errorf("conditions are %+v", stored.Status.Conditions)
	}
}

// The claim is protected at once, however long the cache is behind. Pins PVCP-52.
func TestAClaimIsProtectedWhileTheCacheDoesNotShowItsPods(t *testing.T) {
	f := begin(t, config{unusedSince: true}, claim("claim", unprotected))
	f.Store(t, pod("p"))
	if err := f.Reconcile(); !reconcile.IsExpected(err) {
		t.Errorf("got %v, want to look again", err)
	}
	f.WantRequests(t, list, putStatus, put)
	if got := f.finalizers(t, "claim"); !slices.Contains(got, string(finalizer)) {
		t.Errorf("the finalizers are %q", got)
	}
}

// Pins PVCP-23.
func TestAFailedListEndsThePass(t *testing.T) {
	f := begin(t, config{unusedSince: true}, claim("claim", unprotected))
	f.RefuseIf(list, errors.New("boom"), func(n int) bool { return n == 1 })
	if err := f.Reconcile(); err == nil || reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
	}
	f.WantRequests(t, list)
}

// Pins PVCP-49.
func TestWhatIsShownAsUnusedIsNotAskedFor(t *testing.T) {
	f := begin(t, config{unusedSince: true}, claim("claim", condition(corev1.ConditionTrue)))
	f.MustReconcile(t)
	f.WantRequests(t)
}

// One list answers for claims that are deleted and for those that are not, without taking one
// for the other. Pins PVCP-23 and PVCP-44.
func TestTheConditionAndTheDeletionShareALiveList(t *testing.T) {
	f := begin(t, config{unusedSince: true}, claim("claim"), claim("a"), claim("b", deleted), claim("c"))
	f.Store(t, pod("p", unscheduled, referring("c")))
	f.reconcile(t, "a")
	f.WantRequests(t, list, "update persistentvolumeclaims/status a")
	f.reconcile(t, "b")
	f.WantRequests(t, "update persistentvolumeclaims b")
	if err := f.c.reconcile(f.Context(), types.NamespacedName{Namespace: namespace, Name: "c"}); !reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
	}
	f.WantRequests(t, list, "update persistentvolumeclaims/status c")
	// The claim was not being deleted at the time of the list, but is now.
	deleteClaim(t, f)
	f.reconcile(t, "claim")
	f.WantRequests(t, list, put)
}
