package deployment

import (
	"math"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func semanticEqual(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

// progressFor is the condition Progressing as it was updated some time before now.
func progressFor(status corev1.ConditionStatus, reason string, age time.Duration) func(*appsv1.Deployment) {
	c := condition(appsv1.DeploymentProgressing, status, reason)
	c.LastUpdateTime = metav1.NewTime(now.Add(-age))
	return conditions(c)
}

// Pins DEP-17.
func TestPauseCondition(t *testing.T) {
	for _, tc := range []struct {
		name            string
		d               *appsv1.Deployment
		reason, message string
	}{
		{"paused", makeDeployment(1, paused, progressFor("True", reasonUpdated, 0)), "DeploymentPaused", "Deployment is paused"},
		{"paused before it began", makeDeployment(1, paused), "DeploymentPaused", "Deployment is paused"},
		{"known to be paused", makeDeployment(1, paused, progressFor("Unknown", reasonPaused, 0)), "", ""},
		{"resumed", makeDeployment(1, progressFor("Unknown", reasonPaused, 0)), "DeploymentResumed", "Deployment is resumed"},
		{"running", makeDeployment(1, progressFor("Unknown", reasonResumed, 0)), "", ""},
		{"no condition yet", makeDeployment(1), "", ""},
		{"timed out, then paused", makeDeployment(1, paused, progressFor("False", reasonTimedOut, 0)), "", ""},
		{"DEP-17: no deadline", makeDeployment(1, paused, withoutDeadline), "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := pauseCondition(tc.d, now)
			if ok != (tc.reason != "") || got.Reason != tc.reason || got.Message != tc.message {
				t.Fatalf("pauseCondition() = %+v, %t", got, ok)
			}
			if ok && (got.Type != "Progressing" || got.Status != "Unknown") {
				t.Errorf("condition is %+v", got)
			}
		})
	}
}

func TestProgressOfARollout(t *testing.T) {
	stuck := currentAnd(makeSet(1, 5, observed(5, 2, 2)), makeSet(2, 6))
	same := counts(11, 5, 8, 8)
	done := currentAnd(makeSet(1, 10))
	type want struct{ status, reason, message string }
	for _, tc := range []struct {
		name string
		d    *appsv1.Deployment
		sets replicaSets
		want want
	}{
		{"DEP-35b: complete", makeDeployment(10, counts(11, 5, 8, 8), progressFor("True", reasonUpdated, 0)), done,
			want{"True", "NewReplicaSetAvailable", `ReplicaSet "web-1" has successfully progressed.`}},
		{"DEP-35b: complete after the deadline", makeDeployment(10, counts(11, 5, 8, 8), progressFor("False", reasonTimedOut, time.Hour)), done,
			want{"True", "NewReplicaSetAvailable", `ReplicaSet "web-1" has successfully progressed.`}},
		{"DEP-35e: complete without a new ReplicaSet", makeDeployment(0, progressFor("True", reasonUpdated, 0)), replicaSets{},
			want{"True", "NewReplicaSetAvailable", `Deployment "web" has successfully progressed.`}},
		{"DEP-35c: progressing", makeDeployment(10, counts(11, 4, 8, 8), progressFor("True", reasonCreated, time.Hour)), stuck,
			want{"True", "ReplicaSetUpdated", `ReplicaSet "web-1" is progressing.`}},
		{"DEP-35e: progressing without a new ReplicaSet", makeDeployment(10, counts(8, 0, 8, 8), progressFor("True", reasonCreated, 0)), oldOf(makeSet(2, 6)),
			want{"True", "ReplicaSetUpdated", `Deployment "web" is progressing.`}},
		{"DEP-35d: timed out", makeDeployment(10, same, progressFor("True", reasonUpdated, 601*time.Second)), stuck,
			want{"False", "ProgressDeadlineExceeded", `ReplicaSet "web-1" has timed out progressing.`}},
		{"DEP-35e: timed out without a new ReplicaSet", makeDeployment(10, counts(6, 0, 6, 6), progressFor("True", reasonUpdated, 601*time.Second)), oldOf(makeSet(2, 6)),
			want{"False", "ProgressDeadlineExceeded", `Deployment "web" has timed out progressing.`}},
		{"DEP-35d: at the deadline it is not over", makeDeployment(10, same, progressFor("True", reasonUpdated, 600*time.Second)), stuck,
			want{"True", "ReplicaSetUpdated", "before"}},
		{"DEP-35a: a finished rollout that lost pods is not a new one", makeDeployment(10, counts(10, 10, 10, 10), progressFor("True", reasonComplete, time.Hour)),
			currentAnd(makeSet(1, 10, observed(10, 3, 3))), want{"True", "NewReplicaSetAvailable", "before"}},
		{"DEP-35d: a finished rollout followed by another is never late", makeDeployment(10, same, progressFor("True", reasonComplete, time.Hour)), stuck,
			want{"True", "NewReplicaSetAvailable", "before"}},
		{"resumed starts the deadline anew", makeDeployment(10, same, progressFor("Unknown", reasonResumed, time.Minute)), stuck,
			want{"Unknown", "DeploymentResumed", "before"}},
		{"no condition, no progress", makeDeployment(10, same), stuck, want{}},
		{"DEP-35a: no deadline removes the condition", makeDeployment(10, withoutDeadline, progressFor("True", reasonUpdated, 0)), done, want{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status := rolloutStatus(tc.d, tc.sets, true, now)
			c := findCondition(status.Conditions, appsv1.DeploymentProgressing)
			if c == nil {
				c = &appsv1.DeploymentCondition{}
			}
			if got := (want{string(c.Status), c.Reason, c.Message}); got != tc.want {
				t.Errorf("Progressing is %v, want %v", got, tc.want)
			}
		})
	}
}

// Pins DEP-35c.
func TestEachProgressRenewsTheDeadline(t *testing.T) {
	d := makeDeployment(10, counts(11, 5, 8, 8), progressFor("True", reasonUpdated, time.Minute))
	status := rolloutStatus(d, currentAnd(makeSet(1, 5, observed(5, 3, 3)), makeSet(2, 6)), true, now)
	c := findCondition(status.Conditions, appsv1.DeploymentProgressing)
	if !c.LastUpdateTime.Time.Equal(now) || !c.LastTransitionTime.Time.Equal(now.Add(-time.Hour)) {
		t.Errorf("updated %v, transition %v", c.LastUpdateTime, c.LastTransitionTime)
	}
	if last := status.Conditions[len(status.Conditions)-1]; last.Type != appsv1.DeploymentProgressing {
		t.Errorf("the condition must move to the end: %v", kinds(status.Conditions))
	}
}

// Pins DEP-35f.
func TestRolloutStatusCopiesAndClearsReplicaFailure(t *testing.T) {
	failing := func(rs *appsv1.ReplicaSet) {
		rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: "ReplicaFailure", Status: "True", Reason: "FailedCreate"}}
	}
	status := rolloutStatus(makeDeployment(5), currentAnd(makeSet(1, 5, failing)), true, now)
	if c := findCondition(status.Conditions, appsv1.DeploymentReplicaFailure); c == nil || c.Reason != "FailedCreate" {
		t.Errorf("conditions are %v", status.Conditions)
	}
	d := makeDeployment(5, conditions(condition("ReplicaFailure", "True", "FailedCreate")))
	status = rolloutStatus(d, currentAnd(makeSet(1, 5)), true, now)
	if c := findCondition(status.Conditions, appsv1.DeploymentReplicaFailure); c != nil {
		t.Errorf("failure is still there: %v", c)
	}
}

// Pins DEP-35c.
func TestIsProgress(t *testing.T) {
	before := makeDeployment(10, counts(10, 5, 6, 6)).Status
	for name, tc := range map[string]struct {
		after appsv1.DeploymentStatus
		want  bool
	}{
		"same":           {before, false},
		"updated grew":   {makeDeployment(10, counts(11, 6, 6, 6)).Status, true},
		"old shrank":     {makeDeployment(10, counts(9, 5, 6, 6)).Status, true},
		"ready grew":     {makeDeployment(10, counts(10, 5, 7, 6)).Status, true},
		"available grew": {makeDeployment(10, counts(10, 5, 6, 7)).Status, true},
		"all got worse":  {makeDeployment(10, counts(11, 4, 5, 5)).Status, false},
	} {
		if got := isProgress(&before, &tc.after); got != tc.want {
			t.Errorf("%s: isProgress() = %t, want %t", name, got, tc.want)
		}
	}
}

func TestProgressCheck(t *testing.T) {
	for _, tc := range []struct {
		name string
		d    *appsv1.Deployment
		want time.Duration // 0: no check
	}{
		{"DEP-35g, DEP-38: a second after the deadline", makeDeployment(10, progressFor("True", reasonUpdated, time.Minute)), 541 * time.Second},
		{"DEP-69: right after a close deadline", makeDeployment(10, progressFor("True", reasonUpdated, 600*time.Second-300*time.Millisecond)), 301 * time.Millisecond},
		{"DEP-35g: at once if it is over", makeDeployment(10, progressFor("True", reasonUpdated, time.Hour)), time.Millisecond},
		{"resumed", makeDeployment(10, progressFor("Unknown", reasonResumed, time.Minute)), 541 * time.Second},
		{"DEP-35g: no deadline", makeDeployment(10, withoutDeadline, progressFor("True", reasonUpdated, time.Minute)), 0},
		{"DEP-35g: no condition", makeDeployment(10), 0},
		{"DEP-35g: timed out already", makeDeployment(10, progressFor("False", reasonTimedOut, time.Minute)), 0},
		{"DEP-35g: complete", makeDeployment(10, counts(10, 10, 10, 10), progressFor("True", reasonUpdated, time.Minute)), 0},
		{"DEP-69: was complete and lost pods", makeDeployment(10, counts(10, 10, 3, 3), progressFor("True", reasonComplete, time.Hour)), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := progressCheck(tc.d, now)
			if ok != (tc.want != 0) || (ok && got != tc.want) {
				t.Errorf("progressCheck() = %v, %t, want %v", got, ok, tc.want)
			}
			if ok && !isTimedOut(tc.d, now.Add(got)) {
				t.Error("the check comes before the deadline is over")
			}
		})
	}
}

// Anybody who may write the status of a Deployment may have written that time. Pins DEP-66.
func TestACheckAfterMoreThanADurationIsNotDueAtOnce(t *testing.T) {
	d := makeDeployment(10, progressFor("True", reasonUpdated, 0))
	d.Status.Conditions[0].LastUpdateTime = metav1.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	if got, ok := progressCheck(d, now); !ok || got != math.MaxInt64 {
		t.Errorf("progressCheck() = %v, %t", got, ok)
	}
}

// Pins DEP-35d.
func TestIsTimedOut(t *testing.T) {
	for name, tc := range map[string]struct {
		d    *appsv1.Deployment
		want bool
	}{
		"no condition":              {makeDeployment(1), false},
		"within the deadline":       {makeDeployment(1, progressFor("True", reasonUpdated, 600*time.Second)), false},
		"over the deadline":         {makeDeployment(1, progressFor("True", reasonUpdated, 600*time.Second+1)), true},
		"timed out a moment ago":    {makeDeployment(1, progressFor("False", reasonTimedOut, 0)), true},
		"completed a long time ago": {makeDeployment(1, progressFor("True", reasonComplete, time.Hour)), false},
	} {
		if got := isTimedOut(tc.d, now); got != tc.want {
			t.Errorf("%s: isTimedOut() = %t, want %t", name, got, tc.want)
		}
	}
}
