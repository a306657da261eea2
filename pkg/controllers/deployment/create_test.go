package deployment

import (
	"context"
	"errors"
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
	"kcmd.dev/test/controllertest"
)

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

// Pins DEP-24c.
func TestCollisionTakesAnotherName(t *testing.T) {
	d := makeDeployment(10)
	namesake := makeSet(7, 1, func(rs *appsv1.ReplicaSet) { rs.Name, rs.OwnerReferences = hashName(d), nil; rs.Labels = nil })
	h := newHarness(t, d, namesake)
	h.CatchUp(t)
	if err := h.Reconcile(); !reconcile.IsExpected(err) || !apierrors.IsAlreadyExists(err) {
		t.Errorf("error is %v, want a requeue that says it exists", err)
	}
	h.WantRequests(t, "create replicasets", "get replicasets", "create replicasets", "update deployments/status") // one is a dry run
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

// The Deployment before was deleted without its ReplicaSet, which the cache still shows as owned. Pins DEP-73.
func TestANamesakeThatIsGoingToBeAdoptedIsNoCollision(t *testing.T) {
	for name, tc := range map[string]struct {
		live       setChange
		collisions int32
	}{
		"DEP-73: it has no owner any more": {func(*appsv1.ReplicaSet) {}, 0},
		"DEP-73: it is being deleted": {func(rs *appsv1.ReplicaSet) {
			rs.DeletionTimestamp, rs.Finalizers = &metav1.Time{Time: birth}, []string{"a/b"}
		}, 1},
		"DEP-73: its labels do not match": {func(rs *appsv1.ReplicaSet) { rs.Labels = nil }, 1},
		"DEP-73: it has another template": {func(rs *appsv1.ReplicaSet) { rs.Spec.Template.Spec.Containers[0].Image = "other" }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := makeDeployment(10)
			named := func(rs *appsv1.ReplicaSet) { rs.Name = hashName(d) }
			h := newHarness(t, d)
			h.CatchUp(t)
			h.Cache(t, makeSet(1, 10, current, named, func(rs *appsv1.ReplicaSet) { rs.OwnerReferences[0].UID = "before" }))
			h.Store(t, makeSet(1, 10, current, named, func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }, tc.live))
			if err := h.Reconcile(); !reconcile.IsExpected(err) || !apierrors.IsAlreadyExists(err) {
				t.Errorf("error is %v", err)
			}
			if got := ptr.Deref(h.deployment(t).Status.CollisionCount, 0); got != tc.collisions {
				t.Errorf("%d collisions, want %d", got, tc.collisions)
			}
		})
	}
}

// Nothing is concluded if it cannot be read which ReplicaSet has the name. Pins DEP-73.
func TestANamesakeThatCannotBeReadIsNoCollision(t *testing.T) {
	d := makeDeployment(10)
	h := newHarness(t, d, makeSet(7, 1, func(rs *appsv1.ReplicaSet) { rs.Name, rs.OwnerReferences, rs.Labels = hashName(d), nil, nil }))
	h.CatchUp(t)
	h.Refuse("get replicasets", apierrors.NewTooManyRequestsError("later"))
	if err := h.Reconcile(); !apierrors.IsTooManyRequests(err) || reconcile.IsExpected(err) {
		t.Errorf("error is %v, want a failure", err)
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

// An API server that drops a field of what is created, since it does not know it or its feature is off, and an admission
// webhook, change each ReplicaSet in the same way. Pins DEP-78.
func TestAReplicaSetThatIsStoredWithAnotherTemplateIsTheNewOne(t *testing.T) {
	h := newHarness(t, makeDeployment(10, func(d *appsv1.Deployment) { d.Spec.Template.Spec.SetHostnameAsFQDN = ptr.To(true) }))
	drops := true
	h.Intercept("create replicasets", func(action clienttesting.Action) error {
		if drops {
			action.(clienttesting.CreateAction).GetObject().(*appsv1.ReplicaSet).Spec.Template.Spec.SetHostnameAsFQDN = nil
		}
		return nil
	})
	for range 10 {
		h.CatchUp(t)
		if err := h.Reconcile(); err != nil {
			t.Logf("reconciling: %v", err)
		}
	}
	sets := controllertest.AllStored[*appsv1.ReplicaSet](t, h.Env, namespace)
	if len(sets) != 1 || sizeOf(sets[0]) != 10 {
		t.Errorf("%d ReplicaSets, want one of 10 replicas", len(sets))
	}
	if got := h.deployment(t).Status.CollisionCount; got != nil {
		t.Errorf("%d collisions", *got)
	}

	// It is updated, and what it would have become counts, once there is one.
	h.Fake.ClearActions()
	h.reconcile(t)
	h.WantRequests(t, "create replicasets")
	controllertest.Change(t, h.Env, namespace, "web", func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](7) })
	h.reconcile(t)
	if got := sizeOf(h.set(t, sets[0].Name)); got != 7 {
		t.Errorf("%d replicas, want 7", got)
	}
	drops = false
	for range 3 {
		h.CatchUp(t)
		if err := h.Reconcile(); err != nil && !reconcile.IsExpected(err) {
			t.Fatal(err)
		}
	}
	if sets := controllertest.AllStored[*appsv1.ReplicaSet](t, h.Env, namespace); len(sets) != 2 {
		t.Errorf("%d ReplicaSets, want another one with the whole template", len(sets))
	}
}

// What the API server would store is not known. Pins DEP-78.
func TestAReplicaSetWithAnotherTemplateIsJudgedByTheAPIServer(t *testing.T) {
	d := makeDeployment(10)
	other := func(rs *appsv1.ReplicaSet) {
		rs.Name, rs.Spec.Template.Spec.Containers[0].Image = hashName(d), "edited"
	}
	for name, tc := range map[string]struct {
		refusal    error
		collisions int32
	}{
		"DEP-78: it would store the template":      {nil, 1},
		"DEP-78: it judges no dry runs":            {apierrors.NewBadRequest("admission webhook a does not support dry run"), 1},
		"DEP-78: it is busy, and is asked again":   {apierrors.NewTooManyRequestsError("later"), 0},
		"DEP-78: it fails, and is asked once more": {apierrors.NewInternalError(errors.New("etcd")), 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, d, makeSet(1, 10, current, other))
			h.CatchUp(t)
			h.Intercept("create replicasets", func(action clienttesting.Action) error {
				if create := action.(clienttesting.CreateActionImpl); len(create.CreateOptions.DryRun) > 0 {
					return tc.refusal
				}
				return nil
			})
			if err := h.Reconcile(); err == nil {
				t.Error("there is no error")
			}
			if got := ptr.Deref(h.deployment(t).Status.CollisionCount, 0); got != tc.collisions {
				t.Errorf("%d collisions, want %d", got, tc.collisions)
			}
		})
	}
}

// An admission webhook changes the labels of each new ReplicaSet, so that none is that of the Deployment. Another one would
// be created each time. Pins DEP-79.
func TestReplicaSetsThatAreNotSelectedAreNotMadeWithoutEnd(t *testing.T) {
	h := newHarness(t, makeDeployment(10))
	h.Intercept("create replicasets", func(action clienttesting.Action) error {
		action.(clienttesting.CreateAction).GetObject().(*appsv1.ReplicaSet).Labels = map[string]string{"app": "other"}
		return nil
	})
	h.CatchUp(t)
	var err error
	for range 5 {
		err = h.Reconcile()
		h.CatchUp(t)
	}
	if err == nil || reconcile.IsExpected(err) {
		t.Errorf("error is %v, want a failure", err)
	}
	if n := len(controllertest.AllStored[*appsv1.ReplicaSet](t, h.Env, namespace)); n != 1 {
		t.Errorf("there are %d ReplicaSets", n)
	}
	d := h.deployment(t)
	if d.Status.CollisionCount != nil {
		t.Errorf("%d collisions", *d.Status.CollisionCount)
	}
	if c := findCondition(d.Status.Conditions, "Progressing"); c == nil || c.Reason != "ReplicaSetCreateError" ||
		!strings.Contains(c.Message, "admission webhook") {
		t.Errorf("condition is %+v", c)
	}
}
