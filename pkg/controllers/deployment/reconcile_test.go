package deployment

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/workloads/podtemplate"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

var current = scaledFor("10", "13")

func version(rv string) setChange { return func(rs *appsv1.ReplicaSet) { rs.ResourceVersion = rv } }

func hashName(d *appsv1.Deployment) string {
	return "web-" + podtemplate.Hash(&d.Spec.Template, d.Status.CollisionCount)
}

// Pins DEP-50 and DEP-54.
func TestNewDeploymentCostsTwoWrites(t *testing.T) {
	h := newHarness(t, makeDeployment(10, annotated("team", "shop")))
	h.reconcile(t)
	name := hashName(h.deployment(t))
	h.WantRequests(t, "create replicasets", "update deployments/status")
	h.WantEvents(t, "Normal ScalingReplicaSet Scaled up replica set "+name+" from 0 to 10")
	h.wantProgress(t, "NewReplicaSetCreated")
	d := h.deployment(t)
	if d.Annotations[revisionAnnotation] != "1" || d.Status.ObservedGeneration != 1 || d.Status.UnavailableReplicas != 10 {
		t.Errorf("annotations %v, status %+v", d.Annotations, d.Status)
	}
	if c := findCondition(d.Status.Conditions, "Progressing"); c.Message != `Created new replica set "`+name+`"` {
		t.Errorf("message is %q", c.Message)
	}

	// The caches still show the time before. Nothing is written, and nothing conflicts, however often.
	h.Fake.ClearActions()
	for range 3 {
		if err := h.Reconcile(); err != nil {
			t.Errorf("reconcile on stale caches: %v", err)
		}
		h.WantRequests(t)
	}
	h.reconcile(t)
	h.WantRequests(t)
	if h.remembered() != 0 {
		t.Error("writes are remembered that the caches show")
	}
}

// Pins DEP-34.
func TestNothingToDoWritesNothing(t *testing.T) {
	h := newHarness(t, makeDeployment(10), makeSet(1, 10, current))
	for range 2 { // to let it settle
		h.reconcile(t)
	}
	h.wantProgress(t, "NewReplicaSetAvailable")
	h.reconcile(t)
	h.WantRequests(t)
}

// Pins DEP-23d.
func TestFoundReplicaSetIsNotedOnce(t *testing.T) {
	h := newHarness(t, makeDeployment(10), makeSet(1, 10, current, observed(10, 0, 0)))
	h.reconcile(t)
	// The pods are progress against the empty status.
	h.WantRequests(t, "update deployments/status")
	h.wantProgress(t, "ReplicaSetUpdated")

	h = newHarness(t, makeDeployment(10, counts(10, 10, 0, 0)), makeSet(1, 10, current, observed(10, 0, 0)))
	h.reconcile(t)
	h.wantProgress(t, "FoundNewReplicaSet")
	if c := findCondition(h.deployment(t).Status.Conditions, "Progressing"); c.Message != `Found new replica set "web-1"` {
		t.Errorf("message is %q", c.Message)
	}
}

// Pins DEP-28.
func TestARolloutScalesUpTheNewAndDownTheOld(t *testing.T) {
	h := newHarness(t, makeDeployment(10, image("v2")), makeSet(1, 10, current))
	h.reconcile(t)
	name := hashName(h.deployment(t))
	// 3 of surge at once, and 2 that may be unavailable in the same reconcile.
	h.WantRequests(t, "create replicasets", "update replicasets", "update deployments/status")
	h.WantEvents(t, "Normal ScalingReplicaSet Scaled up replica set "+name+" from 0 to 3",
		"Normal ScalingReplicaSet Scaled down replica set web-1 from 10 to 8")
	if d := h.deployment(t); d.Annotations[revisionAnnotation] != "2" {
		t.Errorf("revision is %q, want 2", d.Annotations[revisionAnnotation])
	}
	h.reconcile(t)
	h.WantRequests(t, "update replicasets")
	h.WantEvents(t, "Normal ScalingReplicaSet Scaled up replica set "+name+" from 3 to 5")
}

// Pins DEP-57.
func TestSyncAndRolloutInOneReconcile(t *testing.T) {
	// The new ReplicaSet needs a higher revision and a larger size: the second write
	// builds on what the first returned.
	h := newHarness(t, makeDeployment(10, rolling("3", "0")), makeSet(1, 1, current), makeSet(4, 9, current, observed(9, 9, 9)))
	h.reconcile(t)
	h.WantRequests(t, "update replicasets", "update replicasets", "update deployments/status")
	rs := h.set(t, "web-1")
	if sizeOf(rs) != 4 || rs.Annotations[revisionAnnotation] != "5" || rs.Annotations[revisionHistoryAnnotation] != "1" {
		t.Errorf("size %d, annotations %v", sizeOf(rs), rs.Annotations)
	}
	if got := h.deployment(t).Annotations[revisionAnnotation]; got != "5" {
		t.Errorf("revision is %s, want 5", got)
	}
}

// Pins DEP-28e and DEP-63.
func TestStatusIsWrittenWhenOldSetsCannotBeScaled(t *testing.T) {
	h := newHarness(t, makeDeployment(10), makeSet(1, 3, current, noted(revisionAnnotation, "3")), makeSet(2, 10, current))
	h.Refuse("update replicasets", errors.New("boom"))
	h.CatchUp(t)
	if err := h.Reconcile(); err == nil {
		t.Error("the failure is lost")
	}
	h.WantRequests(t, "update replicasets", "update deployments/status")
}

// Pins DEP-24c.
func TestCollisionTakesAnotherName(t *testing.T) {
	d := makeDeployment(10)
	namesake := makeSet(7, 1, func(rs *appsv1.ReplicaSet) { rs.Name, rs.OwnerReferences = hashName(d), nil; rs.Labels = nil })
	h := newHarness(t, d, namesake)
	h.CatchUp(t)
	if err := h.Reconcile(); !reconcile.IsExpected(err) || !apierrors.IsAlreadyExists(err) {
		t.Errorf("error is %v, want a requeue that says it exists", err)
	}
	h.WantRequests(t, "create replicasets", "get replicasets", "update deployments/status")
	if got := h.deployment(t).Status.CollisionCount; ptr.Deref(got, 0) != 1 {
		t.Fatalf("collision count is %v", got)
	}
	h.reconcile(t)
	h.WantRequests(t, "create replicasets", "update deployments/status")
	if other := hashName(h.deployment(t)); other == namesake.Name || h.set(t, other) == nil {
		t.Errorf("name is %s again", other)
	}
}

// The ReplicaSets of the one that was there before are those of somebody else. Pins DEP-45.
func TestARecreatedDeploymentStartsAnew(t *testing.T) {
	before := func(rs *appsv1.ReplicaSet) { rs.OwnerReferences[0].UID = "before" }
	d := makeDeployment(10)
	h := newHarness(t, d, makeSet(1, 10, current, before, func(rs *appsv1.ReplicaSet) { rs.Name = hashName(d) }))
	h.CatchUp(t)
	if err := h.Reconcile(); !apierrors.IsAlreadyExists(err) {
		t.Errorf("error is %v", err)
	}
	h.WantRequests(t, "create replicasets", "get replicasets", "update deployments/status")
	h.reconcile(t)
	name := hashName(h.deployment(t))
	h.WantRequests(t, "create replicasets "+name, "update deployments/status")
	if status := h.deployment(t).Status; name == hashName(d) || status.Replicas != 0 || status.UnavailableReplicas != 10 {
		t.Errorf("name %s, status %+v", name, status)
	}
}

// existing makes creations fail because the object exists, after having shown it to the
// cache if given.
func (h *harness) existing(t *testing.T, rs *appsv1.ReplicaSet) {
	h.Fake.PrependReactor("create", "replicasets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if rs != nil {
			rs.Name = action.(clienttesting.CreateAction).GetObject().(*appsv1.ReplicaSet).Name
			h.Cache(t, rs)
		}
		return true, nil, apierrors.NewAlreadyExists(replicaSetResource, "web")
	})
}

// Pins DEP-24c.
func TestAnEqualNamesakeIsUsed(t *testing.T) {
	h := newHarness(t, makeDeployment(10))
	h.existing(t, makeSet(1, 10, current))
	h.reconcile(t)
	h.WantRequests(t, "create replicasets", "update deployments/status")
	h.WantEvents(t)
	d := h.deployment(t)
	if d.Status.CollisionCount != nil || d.Annotations[revisionAnnotation] != "1" {
		t.Errorf("collisions %v, annotations %v", d.Status.CollisionCount, d.Annotations)
	}
}

// The answer to the create was lost, and the cache shows the ReplicaSet of the Deployment that was there before. A second
// ReplicaSet would run beside the first. Pins DEP-73.
func TestANamesakeFromBeforeIsNoCollision(t *testing.T) {
	d := makeDeployment(10)
	named := func(rs *appsv1.ReplicaSet) { rs.Name = hashName(d) }
	before := func(rs *appsv1.ReplicaSet) { rs.UID, rs.OwnerReferences[0].UID = "before", "before" }
	h := newHarness(t, d)
	h.CatchUp(t)
	h.Cache(t, makeSet(1, 10, current, named, before))
	h.Store(t, makeSet(1, 10, current, named))
	h.MustReconcile(t)
	h.WantRequests(t, "create replicasets", "get replicasets", "update deployments/status")
	if got := h.deployment(t).Status.CollisionCount; got != nil {
		t.Errorf("%d collisions", *got)
	}
}

// Nothing is concluded if it cannot be read which ReplicaSet has the name. Pins DEP-73.
func TestANamesakeThatCannotBeReadIsNoCollision(t *testing.T) {
	d := makeDeployment(10)
	h := newHarness(t, d, makeSet(7, 1, func(rs *appsv1.ReplicaSet) { rs.Name, rs.OwnerReferences, rs.Labels = hashName(d), nil, nil }))
	h.CatchUp(t)
	h.Refuse("get replicasets", apierrors.NewTooManyRequestsError("later"))
	if err := h.Reconcile(); !apierrors.IsTooManyRequests(err) {
		t.Errorf("error is %v", err)
	}
	if got := h.deployment(t).Status.CollisionCount; got != nil {
		t.Errorf("%d collisions", *got)
	}
}

// Pins DEP-46 and DEP-58.
func TestANamesakeTheCacheLacksIsNoCollision(t *testing.T) {
	h := newHarness(t, makeDeployment(10))
	h.existing(t, nil)
	h.CatchUp(t)
	cached := h.deployment(t)
	controllertest.Change(t, h.Env, namespace, "web", func(d *appsv1.Deployment) { d.Status.CollisionCount = ptr.To[int32](1) })
	if err := h.Reconcile(); !reconcile.IsExpected(err) || !apierrors.IsNotFound(err) {
		t.Errorf("error is %v, want a requeue that says it was not found", err)
	}
	h.WantRequests(t, "create replicasets "+hashName(cached))
}

// Pins DEP-67.
func TestACreationThatIsCutOffIsNotReported(t *testing.T) {
	h := newHarness(t, makeDeployment(10))
	h.CatchUp(t)
	ctx, cancel := context.WithCancel(h.Context())
	h.Intercept("create replicasets", func(clienttesting.Action) error {
		cancel()
		return context.Canceled
	})
	if err := h.Work(ctx, key); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	h.WantRequests(t, "create replicasets "+hashName(h.deployment(t)))
	h.WantEvents(t)
}

// Pins DEP-24d.
func TestCreateErrorIsReported(t *testing.T) {
	h := newHarness(t, makeDeployment(10))
	h.Refuse("create replicasets", apierrors.NewForbidden(replicaSetResource, "x", errors.New("quota")))
	name := hashName(h.deployment(t))
	for i, want := range [][]string{{"create replicasets", "update deployments/status"}, {"create replicasets"}} {
		h.CatchUp(t)
		if err := h.Reconcile(); !apierrors.IsForbidden(err) {
			t.Errorf("attempt %d: error is %v", i, err)
		}
		h.WantRequests(t, want...)
		message := `Failed to create new replica set "` + name + `": replicasets.apps "x" is forbidden: quota`
		h.WantEvents(t, "Warning ReplicaSetCreateError "+message)
		c := findCondition(h.deployment(t).Status.Conditions, "Progressing")
		if c == nil || c.Status != "False" || c.Reason != "ReplicaSetCreateError" || c.Message != message {
			t.Errorf("condition is %+v", c)
		}
	}
}

// Pins DEP-10 and DEP-24d.
func TestTerminatingNamespaceIsNoFailure(t *testing.T) {
	h := newHarness(t, makeDeployment(10))
	err := apierrors.NewForbidden(replicaSetResource, "x", errors.New("terminating"))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	h.Refuse("create replicasets", err)
	h.reconcile(t)
	h.WantRequests(t, "create replicasets")
	h.WantEvents(t)
}

// The API server may refuse because of a namespace that is gone, while there is another of its name. Pins DEP-62.
func TestGoesOnInANamespaceThatWasMadeAnew(t *testing.T) {
	h := newHarness(t, makeDeployment(10))
	err := apierrors.NewForbidden(replicaSetResource, "x", errors.New("terminating"))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	h.RefuseIf("create replicasets", err, func(n int) bool { return n == 1 })
	h.run(t)
	h.EventuallyAsTimePasses(t, "there is a ReplicaSet", time.Second, func() bool {
		return len(controllertest.AllStored[*appsv1.ReplicaSet](t, h.Env, namespace)) == 1
	})
}

// Pins DEP-13.
func TestEmptySelectorIsRefused(t *testing.T) {
	h := newHarness(t, makeDeployment(10, func(d *appsv1.Deployment) { d.Spec.Selector = &metav1.LabelSelector{} }), makeSet(1, 3))
	for _, want := range [][]string{{"update deployments/status"}, nil} {
		h.reconcile(t)
		h.WantRequests(t, want...)
		h.WantEvents(t, "Warning SelectingAll This deployment is selecting all pods. A non-empty selector is required.")
	}
	if s := h.deployment(t).Status; s.ObservedGeneration != 1 || s.Replicas != 0 {
		t.Errorf("status is %+v", s)
	}
}

// Pins DEP-70.
func TestAnEmptySelectorIsRefusedAgainUntilThatIsWritten(t *testing.T) {
	h := newHarness(t, makeDeployment(10, func(d *appsv1.Deployment) { d.Spec.Selector = &metav1.LabelSelector{} }))
	boom := errors.New("boom")
	h.RefuseIf("update deployments/status", boom, func(n int) bool { return n == 1 })
	h.CatchUp(t)
	if err := h.Reconcile(); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	h.reconcile(t)
	if got := h.deployment(t).Status.ObservedGeneration; got != 1 {
		t.Errorf("the observed generation is %d", got)
	}
}

// Pins DEP-16.
func TestDeletedDeploymentOnlyReports(t *testing.T) {
	deleted := func(d *appsv1.Deployment) {
		d.DeletionTimestamp, d.Finalizers = ptr.To(metav1.NewTime(now)), []string{"x/y"}
	}
	h := newHarness(t, makeDeployment(10, image("v9"), deleted, paused), makeSet(1, 5))
	h.reconcile(t)
	h.WantRequests(t, "update deployments/status")
	h.wantProgress(t, "")
	if s := h.deployment(t).Status; s.Replicas != 5 {
		t.Errorf("status is %+v", s)
	}
}

// Pins DEP-21.
func TestUnknownStrategyIsAnError(t *testing.T) {
	h := newHarness(t, makeDeployment(10, func(d *appsv1.Deployment) { d.Spec.Strategy.Type = "Ramped" }), makeSet(1, 10, current))
	h.CatchUp(t)
	if err := h.Reconcile(); err == nil || err.Error() != "unexpected deployment strategy type: Ramped" {
		t.Errorf("error is %v", err)
	}
}

// Pins DEP-18 and DEP-26.
func TestPausedDeploymentScalesAndTidiesUpOnly(t *testing.T) {
	h := newHarness(t, makeDeployment(20, image("v9"), paused, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](1) }),
		makeSet(1, 0), makeSet(2, 10, current))
	h.reconcile(t)
	h.WantRequests(t, "update replicasets", "delete replicasets", "update deployments/status")
	h.WantEvents(t, "Normal ScalingReplicaSet Scaled up replica set web-2 from 10 to 20")
	h.wantProgress(t, "DeploymentPaused")
	h.reconcile(t)
	h.WantRequests(t)
}

// Pins DEP-19 and DEP-26.
func TestARequestToRollBackKeepsTheHistoryOfAPausedDeployment(t *testing.T) {
	for target, want := range map[string][]string{
		"1":        {"update deployments/status"},
		"the last": {"delete replicasets", "update deployments/status"}, // ignored
	} {
		t.Run(target, func(t *testing.T) {
			h := newHarness(t, makeDeployment(10, image("v9"), paused, annotated(appsv1.DeprecatedRollbackTo, target),
				func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](1) }), makeSet(1, 0), makeSet(2, 10, current))
			h.reconcile(t)
			h.WantRequests(t, want...)
		})
	}
}

// Pins DEP-60.
func TestDeleteOfHistoryNamesTheUID(t *testing.T) {
	h := newHarness(t, makeDeployment(10, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](0) }, counts(10, 10, 10, 10)),
		makeSet(1, 10, current, noted(revisionAnnotation, "3")), makeSet(2, 0))
	h.reconcile(t)
	deletion := h.Fake.Actions()[0].(clienttesting.DeleteAction).GetDeleteOptions()
	h.WantRequests(t, "delete replicasets", "update deployments/status")
	if deletion.Preconditions == nil || ptr.Deref(deletion.Preconditions.UID, "") != "web-2" || deletion.PropagationPolicy != nil {
		t.Errorf("options are %+v", deletion)
	}
}

// Pins DEP-28f.
func TestHistoryStaysWhileTheRolloutRuns(t *testing.T) {
	h := newHarness(t, makeDeployment(10, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](0) }, counts(10, 10, 9, 9)),
		makeSet(1, 10, current, noted(revisionAnnotation, "3"), observed(10, 9, 9)), makeSet(2, 0))
	h.reconcile(t)
	h.WantRequests(t, "update deployments/status")
}

// Pins DEP-60.
func TestHistoryThatIsGoneAlreadyIsNoFailure(t *testing.T) {
	for name, err := range map[string]error{
		"gone":      apierrors.NewNotFound(replicaSetResource, "web-2"),
		"recreated": apierrors.NewConflict(replicaSetResource, "web-2", errors.New("precondition failed: UID")),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, makeDeployment(10, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](0) }, counts(10, 10, 10, 10)),
				makeSet(1, 10, current, noted(revisionAnnotation, "3")), makeSet(2, 0))
			h.Refuse("delete replicasets", err)
			h.reconcile(t)
			h.WantRequests(t, "delete replicasets", "update deployments/status")
		})
	}
}

// Pins WL-117.
func TestTheAnswerOfAProxyIsNoDeletion(t *testing.T) {
	ofAProxy := apierrors.NewGenericServerResponse(
		http.StatusNotFound, "delete", replicaSetResource, "web-2", "404 page not found", 0, true)
	h := newHarness(t, makeDeployment(10, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](0) }, counts(10, 10, 10, 10)),
		makeSet(1, 10, current, noted(revisionAnnotation, "3")), makeSet(2, 0))
	h.Refuse("delete replicasets", ofAProxy)
	h.CatchUp(t)
	if err := h.Reconcile(); !errors.Is(err, ofAProxy) {
		t.Errorf("got %v", err)
	}
}

// Pins DEP-20.
func TestScalingEventComesBeforeTheRollout(t *testing.T) {
	h := newHarness(t, makeDeployment(30, rolling("3", "2"), image("v9")),
		makeSet(1, 5, scaledFor("10", "13")), makeSet(2, 8, scaledFor("10", "13")))
	h.reconcile(t)
	h.WantRequests(t, "update replicasets", "update replicasets", "update deployments/status")
	h.WantEvents(t, "Normal ScalingReplicaSet Scaled up replica set web-2 from 8 to 20",
		"Normal ScalingReplicaSet Scaled up replica set web-1 from 5 to 13")
	h.reconcile(t)
	if got := h.Requests(); !slices.ContainsFunc(got, func(r string) bool { return strings.HasPrefix(r, "create replicasets ") }) {
		t.Errorf("requests are %q: the rollout should go on", got)
	}
}

// Pins DEP-55.
func TestStaleAnnotationDoesNotBlockTheRollout(t *testing.T) {
	h := newHarness(t, makeDeployment(10, image("v2")), makeSet(1, 10, scaledFor("9", "12")))
	h.reconcile(t)
	h.WantRequests(t, "update replicasets", "update deployments/status")
	h.WantEvents(t)
	h.reconcile(t)
	if got := h.Requests(); !slices.ContainsFunc(got, func(r string) bool { return strings.HasPrefix(r, "create replicasets ") }) {
		t.Errorf("requests are %q: the rollout should go on", got)
	}
}

// Pins DEP-19 and DEP-30.
func TestRollback(t *testing.T) {
	request := annotated(appsv1.DeprecatedRollbackTo, "1")
	h := newHarness(t, makeDeployment(10, image("v2"), request), makeSet(1, 0), makeSet(2, 10, current))
	h.reconcile(t)
	// The revision is written before the Deployment itself, without a conflict.
	h.WantRequests(t, "update deployments/status", "update deployments")
	h.WantEvents(t, `Normal DeploymentRollback Rolled back deployment "web" to revision 1`)
	d := h.deployment(t)
	if d.Spec.Template.Spec.Containers[0].Image != "v1" || d.Annotations[appsv1.DeprecatedRollbackTo] != "" {
		t.Errorf("image %s, annotations %v", d.Spec.Template.Spec.Containers[0].Image, d.Annotations)
	}
}

// Pins DEP-30.
func TestRollbackIsOnlyAnnouncedOnceWritten(t *testing.T) {
	h := newHarness(t, makeDeployment(10, image("v2"), annotated(appsv1.DeprecatedRollbackTo, "1", revisionAnnotation, "2"), progressFor("True", reasonFound, 0)),
		makeSet(1, 0), makeSet(2, 10, current))
	h.Refuse("update deployments", errors.New("boom"))
	h.CatchUp(t)
	if err := h.Reconcile(); err == nil {
		t.Error("the failure is lost")
	}
	h.WantEvents(t)
}

// Pins DEP-61.
func TestConflictIsNoFailure(t *testing.T) {
	h := newHarness(t, makeDeployment(10), makeSet(1, 10, current))
	h.CatchUp(t)
	moved := h.deployment(t).DeepCopy()
	if _, err := h.Fake.AppsV1().Deployments(namespace).UpdateStatus(h.Context(), moved, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := h.Reconcile(); !reconcile.IsExpected(err) || !apierrors.IsConflict(err) {
		t.Errorf("error is %v, want a requeue for a conflict", err)
	}
}

// Pins DEP-29.
func TestRecreateWaitsForOldPods(t *testing.T) {
	old := makeSet(1, 10, current)
	h := newHarness(t, makeDeployment(10, recreating, image("v2")), old, podOf(old, "running", corev1.PodRunning), podOf(old, "done", corev1.PodSucceeded))
	h.reconcile(t)
	h.WantRequests(t, "update replicasets", "update deployments/status")
	h.WantEvents(t, "Normal ScalingReplicaSet Scaled down replica set web-1 from 10 to 0")

	h.reconcile(t)
	h.WantRequests(t)
	// The status leaves terminating pods out, so the pods themselves are looked at.
	h.changed(t, "web-1", observed(0, 0, 0))
	h.Clock.Step(time.Second)
	h.reconcile(t)
	h.WantRequests(t, "update deployments/status")

	if err := h.Fake.CoreV1().Pods(namespace).Delete(h.Context(), "running", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.reconcile(t)
	h.WantRequests(t, "list replicasets", "list pods", "create replicasets", "update deployments/status")
	h.WantEvents(t, "Normal ScalingReplicaSet Scaled up replica set "+hashName(h.deployment(t))+" from 0 to 10")
}

// A ReplicaSet whose controller has not seen that it was scaled down may be given its pods right now. Pins DEP-64.
func TestRecreateWaitsUntilTheOldSetsWereSeen(t *testing.T) {
	unseen := func(rs *appsv1.ReplicaSet) { rs.Status = appsv1.ReplicaSetStatus{} }
	h := newHarness(t, makeDeployment(10, recreating, image("v2")), makeSet(1, 10, current, unseen))
	h.reconcile(t)
	h.WantRequests(t, "update replicasets web-1", "update deployments/status")
	h.reconcile(t)
	h.WantRequests(t)
	h.changed(t, "web-1", observed(0, 0, 0))
	h.reconcile(t)
	h.WantRequests(t, "list replicasets", "list pods", "create replicasets", "update deployments/status")
}

// An API server that does not know a number drops it, and an update without effect is no event. Pins DEP-65.
func TestTheDeadlineIsWatchedThoughTheStatusIsNotStored(t *testing.T) {
	stuck := makeDeployment(10, counts(10, 10, 5, 5), annotated(revisionAnnotation, "1"),
		conditions(condition("Available", "False", reasonUnavailable), progressing("True", reasonUpdated, "", now.Add(-time.Minute))))
	h := newHarness(t, stuck, makeSet(1, 10, current, observed(10, 5, 5)))
	h.c.owners.Queue = h.Queued
	h.Fake.PrependReactor("update", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, h.deployment(t), nil
	})
	h.reconcile(t)
	h.WantRequests(t, "update deployments/status")
	if wait := h.Queued.TakeDelay(key); wait != 541*time.Second {
		t.Errorf("it is looked at again in %v", wait)
	}
}

// Pins DEP-29.
func TestRecreateScalesUpAnEarlierSet(t *testing.T) {
	h := newHarness(t, makeDeployment(10, recreating), makeSet(1, 0), makeSet(2, 0))
	h.reconcile(t)
	h.WantRequests(t, "update replicasets", "list replicasets", "list pods", "update replicasets", "update deployments/status")
	h.WantEvents(t, "Normal ScalingReplicaSet Scaled up replica set web-1 from 0 to 10")
}

// Pins DEP-14.
func TestOrphansAreAdoptedAfterALiveLook(t *testing.T) {
	orphan := func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }
	stranger := func(rs *appsv1.ReplicaSet) { rs.OwnerReferences[0].UID = "other" }
	h := newHarness(t, makeDeployment(10), makeSet(1, 10, current, orphan), makeSet(2, 0, stranger), makeSet(3, 0, orphan, func(rs *appsv1.ReplicaSet) { rs.Labels = nil }))
	h.reconcile(t)
	h.WantRequests(t, "get deployments", "patch replicasets", "update deployments/status")
	if !metav1.IsControlledBy(h.set(t, "web-1"), h.deployment(t)) {
		t.Error("the orphan was not adopted")
	}
}

// Pins DEP-54.
func TestAnAdoptedSetIsScaledWithoutAConflict(t *testing.T) {
	h := newHarness(t, makeDeployment(10), makeSet(1, 3, current, func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }))
	h.Fake.PrependReactor("patch", "replicasets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		adopted := makeSet(1, 3, current, version(h.NextVersion()))
		return true, adopted, h.Fake.Tracker().Update(action.GetResource(), adopted.DeepCopy(), namespace)
	})
	h.reconcile(t)
	h.WantRequests(t, "get deployments", "patch replicasets", "update replicasets", "update deployments/status")
}

// Pins DEP-14.
func TestFailedAdoptionStopsTheReconcile(t *testing.T) {
	h := newHarness(t, makeDeployment(10), makeSet(1, 3, func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }))
	h.Refuse("patch replicasets", errors.New("boom"))
	h.CatchUp(t)
	if err := h.Reconcile(); err == nil {
		t.Error("the failure is lost")
	}
	h.WantRequests(t, "get deployments", "patch replicasets")
}

// Pins DEP-12.
func TestGoneDeploymentIsForgotten(t *testing.T) {
	h := newHarness(t, makeDeployment(10))
	h.reconcile(t)
	if h.remembered() != 2 {
		t.Fatal("the writes are not remembered")
	}
	if err := h.Fake.AppsV1().Deployments(namespace).Delete(h.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.reconcile(t)
	h.WantRequests(t)
	if len(h.c.owners.HandOver()) != 0 {
		t.Error("the writes are still remembered")
	}
}

// Pins DEP-23e.
func TestWhatIsTakenFromTheReplicaSetIsWritten(t *testing.T) {
	h := newHarness(t, makeDeployment(10, counts(10, 10, 10, 10), conditions(
		condition("Available", "True", reasonAvailable), condition("Progressing", "True", reasonComplete),
	), func(d *appsv1.Deployment) { d.Status.TerminatingReplicas = new(int32) }), makeSet(1, 10, current, noted(revisionAnnotation, "3")))
	boom := errors.New("boom")
	allow := h.Refuse("update deployments/status", boom)
	h.CatchUp(t)
	if err := h.Reconcile(); !errors.Is(err, boom) {
		t.Errorf("error is %v", err)
	}
	h.WantRequests(t, "update deployments/status")
	allow()
	h.reconcile(t)
	h.WantRequests(t, "update deployments/status")
	if d := h.deployment(t); d.Annotations[revisionAnnotation] != "3" || d.Generation != 1 {
		t.Errorf("generation %d, annotations %v", d.Generation, d.Annotations)
	}
	h.reconcile(t)
	h.WantRequests(t)
}

// Pins DEP-47.
func TestConditionsOfOthersStay(t *testing.T) {
	mine := condition("Mine", "Unknown", "Because")
	h := newHarness(t, makeDeployment(10, image("v2")), makeSet(1, 10, current))
	h.reconcile(t)
	controllertest.Change(t, h.Env, namespace, "web", func(d *appsv1.Deployment) {
		d.Status.Conditions = append([]appsv1.DeploymentCondition{mine}, d.Status.Conditions...)
	})
	available := func(n int32) setChange {
		return func(rs *appsv1.ReplicaSet) { observed(sizeOf(rs), n, n)(rs) }
	}
	for n := range int32(3) {
		h.changed(t, hashName(h.deployment(t)), available(n+1))
		h.reconcile(t)
		h.Clock.Step(statusWindow)
		h.reconcile(t)
	}
	d := h.deployment(t)
	if got := findCondition(d.Status.Conditions, "Mine"); got == nil || !semanticEqual(*got, mine) || d.Status.UpdatedReplicas == 0 {
		t.Errorf("status is %+v", d.Status)
	}
}

// Pins DEP-8.
func TestTheOnlyRequests(t *testing.T) {
	orphan := func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }
	stray := func(rs *appsv1.ReplicaSet) { rs.Labels = map[string]string{"app": "other"} }
	noHistory := func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](0) }
	for name, tc := range map[string]struct {
		objects []runtime.Object
		want    []string
	}{
		"claims": {[]runtime.Object{makeDeployment(10), makeSet(1, 10, current, orphan), makeSet(2, 0, stray)},
			[]string{"get deployments", "patch replicasets", "update deployments/status"}},
		"rolls": {[]runtime.Object{makeDeployment(10, image("v2")), makeSet(1, 10, current)},
			[]string{"create replicasets", "update deployments/status", "update replicasets"}},
		"recreates": {[]runtime.Object{makeDeployment(10, image("v2"), recreating), makeSet(1, 10, current)},
			[]string{"create replicasets", "list pods", "list replicasets", "update deployments/status", "update replicasets"}},
		"scales": {[]runtime.Object{makeDeployment(20), makeSet(1, 10, current)},
			[]string{"update deployments/status", "update replicasets"}},
		"tidies up": {[]runtime.Object{makeDeployment(10, image("v2"), noHistory), makeSet(1, 0), makeSet(2, 10, current)},
			[]string{"delete replicasets", "update deployments/status"}},
		"rolls back": {[]runtime.Object{makeDeployment(10, image("v2"), annotated(appsv1.DeprecatedRollbackTo, "1")), makeSet(1, 0), makeSet(2, 10, current)},
			[]string{"update deployments", "update deployments/status", "update replicasets"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, tc.objects...)
			sent := map[string]bool{}
			for range 4 {
				h.reconcile(t)
				for _, request := range h.Requests() {
					what, _, _ := strings.Cut(request, " web")
					sent[what] = true
				}
				for _, rs := range controllertest.AllStored[*appsv1.ReplicaSet](t, h.Env, namespace) {
					h.changed(t, rs.Name, func(rs *appsv1.ReplicaSet) { observed(sizeOf(rs), sizeOf(rs), sizeOf(rs))(rs) })
				}
			}
			if got := slices.Sorted(maps.Keys(sent)); !slices.Equal(got, tc.want) {
				t.Errorf("requests are %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWhichPodsHoldARecreationUp(t *testing.T) {
	old := makeSet(1, 0)
	running := func(rs *appsv1.ReplicaSet) *corev1.Pod { return podOf(rs, "p", corev1.PodRunning) }
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"DEP-15: running":       {running(old), true},
		"DEP-15: pending":       {podOf(old, "p", corev1.PodPending), true},
		"DEP-15: unknown":       {podOf(old, "p", corev1.PodUnknown), true},
		"being deleted":         {controllertest.Changed(running(old), controllertest.Terminating), true},
		"has other labels":      {controllertest.Changed(running(old), controllertest.Labeled(nil)), true},
		"DEP-56: ended":         {podOf(old, "p", corev1.PodFailed), false},
		"DEP-15: orphan":        {controllertest.Changed(running(old), controllertest.Orphaned), false},
		"of the new one":        {running(makeSet(2, 0)), false},
		"DEP-15: of a namesake": {running(makeSet(1, 0, func(rs *appsv1.ReplicaSet) { rs.UID = "namesake" })), false},
		"in another place":      {controllertest.Changed(running(old), func(p *corev1.Pod) { p.Namespace = "elsewhere" }), false},
		"of an unknown one":     {running(makeSet(7, 0)), false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, tc.pod)
			h.CatchUp(t)
			r := &reconciliation{deploymentController: h.c, sets: currentAnd(makeSet(2, 0), old)}
			if got, err := r.oldPodsRun(); err != nil || got != tc.want {
				t.Errorf("old pods run: %t, %v", got, err)
			}
		})
	}
}

// Pins DEP-59.
func TestGradualChangesAreWrittenOncePerWindow(t *testing.T) {
	h := newHarness(t, makeDeployment(10, counts(10, 10, 0, 0), conditions(condition("Available", "False", reasonUnavailable))),
		makeSet(1, 10, current, observed(10, 0, 0)))
	h.reconcile(t) // notes the new ReplicaSet
	h.Clock.Step(time.Second)
	written := 0
	for ready := int32(1); ready <= 7; ready++ {
		h.changed(t, "web-1", observed(10, ready, ready))
		h.reconcile(t)
		written += len(h.Requests())
		h.Clock.Step(10 * time.Millisecond)
	}
	// The reason turns to ReplicaSetUpdated with the first; the rest can wait.
	if written != 1 {
		t.Errorf("%d writes for 7 changes within a window, want 1", written)
	}
	h.changed(t, "web-1", observed(10, 8, 8))
	h.reconcile(t)
	h.WantRequests(t, "update deployments/status") // minimum availability
	end := h.Clock.Now().Add(statusWindow)
	for available := int32(8); h.Clock.Now().Before(end); available = 17 - available {
		h.changed(t, "web-1", observed(10, 9, available))
		h.reconcile(t)
		h.WantRequests(t) // they keep changing
		h.Clock.Step(writes.CountsQuiet / 2)
	}
	h.changed(t, "web-1", observed(10, 9, 9))
	h.reconcile(t)
	h.WantRequests(t, "update deployments/status")
	h.changed(t, "web-1", observed(10, 8, 8))
	h.reconcile(t)
	h.WantRequests(t)
	h.Clock.Step(writes.CountsQuiet)
	h.reconcile(t)
	h.WantRequests(t, "update deployments/status") // they do not change any more
	h.changed(t, "web-1", observed(10, 10, 10))
	h.reconcile(t)
	h.WantRequests(t, "update deployments/status") // complete
}
