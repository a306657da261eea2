package deployment

import (
	"errors"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

// condition makes a condition that was set an hour before now and updated a minute before.
func condition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason string) appsv1.DeploymentCondition {
	c := newCondition(kind, status, reason, "before", now.Add(-time.Hour))
	c.LastUpdateTime = metav1.NewTime(now.Add(-time.Minute))
	return c
}

func kinds(conditions []appsv1.DeploymentCondition) []string {
	var all []string
	for _, c := range conditions {
		all = append(all, string(c.Type))
	}
	return all
}

// Pins DEP-36.
func TestWithCondition(t *testing.T) {
	before := []appsv1.DeploymentCondition{
		condition("Progressing", "True", "A"), condition("Available", "True", "B"), condition("Mine", "False", "C"),
	}
	hour := metav1.NewTime(now.Add(-time.Hour))
	for _, tc := range []struct {
		name       string
		set        appsv1.DeploymentCondition
		wantOrder  []string
		wantUpdate time.Time
		wantMove   metav1.Time
	}{
		{"same status and reason stays untouched", newCondition("Progressing", "True", "A", "after", now),
			[]string{"Progressing", "Available", "Mine"}, now.Add(-time.Minute), hour},
		{"another reason moves to the end and keeps the transition", newCondition("Progressing", "True", "Z", "after", now),
			[]string{"Available", "Mine", "Progressing"}, now, hour},
		{"another status is a transition", newCondition("Progressing", "False", "A", "after", now),
			[]string{"Available", "Mine", "Progressing"}, now, metav1.NewTime(now)},
		{"a new type is appended", newCondition("Other", "True", "A", "after", now),
			[]string{"Progressing", "Available", "Mine", "Other"}, now, metav1.NewTime(now)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			given := slices.Clone(before)
			got := withCondition(given, tc.set)
			if !slices.Equal(kinds(got), tc.wantOrder) {
				t.Errorf("order is %v, want %v", kinds(got), tc.wantOrder)
			}
			c := findCondition(got, tc.set.Type)
			if !c.LastUpdateTime.Time.Equal(tc.wantUpdate) || !c.LastTransitionTime.Equal(&tc.wantMove) {
				t.Errorf("updated %v, transition %v", c.LastUpdateTime, c.LastTransitionTime)
			}
			if !slices.Equal(given, before) {
				t.Error("the conditions given were changed")
			}
		})
	}
}

// Pins DEP-35c.
func TestReplaceConditionRenewsTheUpdateTime(t *testing.T) {
	got := replaceCondition([]appsv1.DeploymentCondition{condition("Progressing", "True", "A"), condition("Available", "True", "B")},
		newCondition("Progressing", "True", "A", "after", now))
	c := findCondition(got, "Progressing")
	if !c.LastUpdateTime.Time.Equal(now) || !c.LastTransitionTime.Time.Equal(now.Add(-time.Hour)) || c.Message != "after" {
		t.Errorf("condition is %+v", c)
	}
	if want := []string{"Available", "Progressing"}; !slices.Equal(kinds(got), want) {
		t.Errorf("order is %v, want %v", kinds(got), want)
	}
}

// Pins DEP-32.
func TestObservedStatus(t *testing.T) {
	d := makeDeployment(10, conditions(condition("Mine", "True", "X")), func(d *appsv1.Deployment) {
		d.Generation = 7
		d.Status.CollisionCount = ptr.To[int32](3)
	})
	sets := currentAnd(makeSet(1, 5, observed(4, 3, 2)), makeSet(2, 6, observed(6, 6, 5)))
	got := observedStatus(d, sets, true, now)
	want := appsv1.DeploymentStatus{
		ObservedGeneration: 7, Replicas: 10, UpdatedReplicas: 4, ReadyReplicas: 9, AvailableReplicas: 7,
		UnavailableReplicas: 4, TerminatingReplicas: ptr.To[int32](0), CollisionCount: ptr.To[int32](3),
	}
	gotConditions := got.Conditions
	got.Conditions = nil
	if !semanticEqual(got, want) {
		t.Errorf("status is %+v, want %+v", got, want)
	}
	if order := kinds(gotConditions); !slices.Equal(order, []string{"Mine", "Available"}) {
		t.Errorf("conditions are %v: those of others must be kept", order)
	}
	if c := gotConditions[1]; c.Status != "False" || c.Reason != "MinimumReplicasUnavailable" || c.Message != "Deployment does not have minimum availability." {
		t.Errorf("7 of 8 required: %+v", c)
	}

	if none := observedStatus(d, replicaSets{}, false, now); none.UpdatedReplicas != 0 || none.UnavailableReplicas != 0 || none.TerminatingReplicas != nil {
		t.Errorf("status without ReplicaSets is %+v", none)
	}
	if surplus := observedStatus(d, currentAnd(makeSet(1, 2, observed(5, 5, 5))), true, now); surplus.UnavailableReplicas != 0 {
		t.Errorf("unavailable is %d with more available than wanted", surplus.UnavailableReplicas)
	}
}

// Pins DEP-33.
func TestAvailability(t *testing.T) {
	got := availability(makeDeployment(10), 8, now)
	if got.Type != "Available" || got.Status != "True" || got.Reason != "MinimumReplicasAvailable" || got.Message != "Deployment has minimum availability." {
		t.Errorf("8 of 8 required: %+v", got)
	}
	if got := availability(makeDeployment(10, recreating), 9, now); got.Status != "False" {
		t.Errorf("a recreation requires all: %+v", got)
	}
}

// Pins DEP-32.
func TestTerminatingReplicas(t *testing.T) {
	terminating := func(n *int32) setChange {
		return func(rs *appsv1.ReplicaSet) { rs.Status.TerminatingReplicas = n }
	}
	unobserved := func(rs *appsv1.ReplicaSet) { rs.Status = appsv1.ReplicaSetStatus{} }
	for _, tc := range []struct {
		name string
		sets []*appsv1.ReplicaSet
		want *int32
	}{
		{"none", nil, ptr.To[int32](0)},
		{"summed up", []*appsv1.ReplicaSet{makeSet(1, 1, terminating(ptr.To[int32](2))), makeSet(2, 1, terminating(ptr.To[int32](3)))}, ptr.To[int32](5)},
		{"an unobserved set has none", []*appsv1.ReplicaSet{makeSet(1, 1, unobserved), makeSet(2, 1, terminating(ptr.To[int32](3)))}, ptr.To[int32](3)},
		{"an observed set that does not count hides all", []*appsv1.ReplicaSet{makeSet(1, 1, terminating(nil)), makeSet(2, 1, terminating(ptr.To[int32](3)))}, nil},
	} {
		if got := terminatingReplicas(tc.sets); !ptr.Equal(got, tc.want) {
			t.Errorf("%s: terminatingReplicas() = %v, want %v", tc.name, ptr.Deref(got, -1), ptr.Deref(tc.want, -1))
		}
	}
}

// Pins DEP-35b.
func TestIsComplete(t *testing.T) {
	for name, tc := range map[string]struct {
		d    *appsv1.Deployment
		want bool
	}{
		"complete":          {makeDeployment(10, counts(10, 10, 10, 10)), true},
		"ready is not part": {makeDeployment(10, counts(10, 10, 0, 10)), true},
		"not all updated":   {makeDeployment(10, counts(10, 9, 10, 10)), false},
		"old pods left":     {makeDeployment(10, counts(11, 10, 11, 10)), false},
		"not all available": {makeDeployment(10, counts(10, 10, 10, 9)), false},
		"more available":    {makeDeployment(10, counts(10, 10, 10, 11)), false},
		"not observed":      {makeDeployment(10, counts(10, 10, 10, 10), func(d *appsv1.Deployment) { d.Generation = 2 }), false},
	} {
		if got := isComplete(tc.d, &tc.d.Status); got != tc.want {
			t.Errorf("%s: isComplete() = %t, want %t", name, got, tc.want)
		}
	}
}

// Pins DEP-35f.
func TestReplicaFailure(t *testing.T) {
	failing := func(reason string) setChange {
		return func(rs *appsv1.ReplicaSet) {
			rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: "Other", Status: "True"}, {
				Type: appsv1.ReplicaSetReplicaFailure, Status: "True", Reason: reason, Message: "quota",
				LastTransitionTime: metav1.NewTime(birth),
			}}
		}
	}
	if _, ok := replicaFailure(currentAnd(makeSet(1, 1), makeSet(2, 1))); ok {
		t.Error("found a failure where there is none")
	}
	if got, _ := replicaFailure(currentAnd(makeSet(1, 1, failing("New")), makeSet(2, 1, failing("Old")))); got.Reason != "New" {
		t.Errorf("the failure of the new set goes first, got %q", got.Reason)
	}
	got, _ := replicaFailure(currentAnd(makeSet(1, 1), makeSet(2, 1, failing("Old"))))
	if got.Type != "ReplicaFailure" || got.Status != "True" || got.Reason != "Old" || got.Message != "quota" ||
		!got.LastUpdateTime.Time.Equal(birth) || !got.LastTransitionTime.Time.Equal(birth) {
		t.Errorf("failure is %+v", got)
	}
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

// A step that is refused is no reason to say that pods are available which are not. Pins DEP-75.
func TestWhatIsSeenIsReportedAlthoughAStepFails(t *testing.T) {
	noHistory := func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](0) }
	down := observed(10, 0, 0)
	edited := func(change func(*appsv1.Deployment)) func(*appsv1.Deployment) {
		return controllertest.All(change, func(d *appsv1.Deployment) { d.Generation++ })
	}
	for name, test := range map[string]struct {
		change  func(*appsv1.Deployment)
		refused string
	}{
		"an old ReplicaSet is not deleted":        {noHistory, "delete replicasets"},
		"nor while the Deployment is paused":      {edited(controllertest.All(noHistory, paused)), "delete replicasets"},
		"the new ReplicaSet is not created":       {edited(image("v9")), "create replicasets"},
		"the new ReplicaSet is not scaled":        {edited(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](11) }), "update replicasets"},
		"the annotations are not copied":          {annotated("team", "shop"), "update replicasets"},
		"the Deployment is not rolled back":       {annotated(appsv1.DeprecatedRollbackTo, "1"), "update deployments web"},
		"the strategy is that of a later version": {edited(func(d *appsv1.Deployment) { d.Spec.Strategy.Type = "Ramped" }), "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, makeDeployment(10, image("v2"), counts(10, 10, 10, 10), conditions(
				condition("Available", "True", reasonAvailable), condition("Progressing", "True", reasonComplete),
			), test.change), makeSet(1, 0), makeSet(2, 10, current, down))
			h.Refuse(test.refused, errors.New("no"))
			h.CatchUp(t)
			if err := h.Reconcile(); err == nil {
				t.Error("nothing failed")
			}
			d := h.deployment(t)
			available := findCondition(d.Status.Conditions, "Available")
			if s := d.Status; s.AvailableReplicas != 0 || s.ObservedGeneration != 1 || available.Status != "False" {
				t.Errorf("the status is %+v", s)
			}
		})
	}
}
