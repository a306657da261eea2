package deployment

import (
	"errors"
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"kcmd.dev/pkg/controller"
)

// Pins DEP-19.
func TestRollbackTarget(t *testing.T) {
	for _, tc := range []struct {
		text string
		want int64
		ok   bool
	}{
		{"3", 3, true}, {"0", 0, true}, {"x", 0, false}, {"", 0, false}, {"99999999999999999999", 0, false},
	} {
		d := makeDeployment(1, annotated(appsv1.DeprecatedRollbackTo, tc.text))
		if got, ok := rollbackTarget(d); ok != tc.ok || (ok && got != tc.want) {
			t.Errorf("rollbackTarget(%q) = %d, %t, want %d, %t", tc.text, got, ok, tc.want, tc.ok)
		}
	}
	if _, ok := rollbackTarget(makeDeployment(1)); ok {
		t.Error("no annotation must be no request")
	}
}

// Pins DEP-30.
func TestRolledBack(t *testing.T) {
	request := func(changes ...string) *appsv1.Deployment {
		return makeDeployment(1, image("v3"), annotated(append([]string{appsv1.DeprecatedRollbackTo, "x",
			revisionAnnotation, "3", "kubectl.kubernetes.io/last-applied-configuration", "{}"}, changes...)...))
	}
	three := currentAnd(makeSet(3, 1), makeSet(1, 0, noted("note", "one")), makeSet(2, 0, noted("note", "two", maxReplicasAnnotation, "9")))
	for _, tc := range []struct {
		name      string
		sets      replicaSets
		target    int64
		image     string
		note      string
		wantEvent controller.Event
	}{
		{"to a revision", three, 1, "v1", "one",
			controller.Event{Type: "Normal", Reason: "DeploymentRollback", Message: `Rolled back deployment "web" to revision 1`}},
		{"to the one before the last", three, 0, "v2", "two",
			controller.Event{Type: "Normal", Reason: "DeploymentRollback", Message: `Rolled back deployment "web" to revision 2`}},
		{"to the current template", three, 3, "v3", "mine",
			controller.Event{Type: "Warning", Reason: "DeploymentRollbackTemplateUnchanged", Message: `The rollback revision contains the same template as current deployment "web"`}},
		{"to an unknown revision", three, 9, "v3", "mine",
			controller.Event{Type: "Warning", Reason: "DeploymentRollbackRevisionNotFound", Message: "Unable to find the revision to rollback to."}},
		{"to the one before the first", currentAnd(makeSet(3, 1)), 0, "v3", "mine",
			controller.Event{Type: "Warning", Reason: "DeploymentRollbackRevisionNotFound", Message: "Unable to find last revision."}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := request("note", "mine")
			after, got, done := rolledBack(d, tc.sets, tc.target)
			tc.wantEvent.About = d
			if got != tc.wantEvent || done != (got.Type == "Normal") {
				t.Errorf("event is %v, done %t, want %v", got, done, tc.wantEvent)
			}
			if image := after.Spec.Template.Spec.Containers[0].Image; image != tc.image {
				t.Errorf("image is %s, want %s", image, tc.image)
			}
			if _, ok := after.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; ok {
				t.Error("the hash label was copied")
			}
			want := map[string]string{revisionAnnotation: "3", "kubectl.kubernetes.io/last-applied-configuration": "{}", "note": tc.note}
			if !maps.Equal(after.Annotations, want) {
				t.Errorf("annotations are %v, want %v", after.Annotations, want)
			}
			if _, ok := d.Annotations[appsv1.DeprecatedRollbackTo]; !ok {
				t.Error("the Deployment given was changed")
			}
		})
	}
}

func TestRollbackRemovesAnnotationsTheRevisionDidNotHave(t *testing.T) {
	d := makeDeployment(1, image("v3"), annotated(appsv1.DeprecatedRollbackTo, "1", "added", "later"))
	after, _, _ := rolledBack(d, currentAnd(makeSet(3, 1), makeSet(1, 0)), 1)
	if _, ok := after.Annotations["added"]; ok {
		t.Errorf("annotations are %v", after.Annotations)
	}
}

// Pins DEP-30.
func TestLastRevision(t *testing.T) {
	bad := makeSet(9, 0, noted(revisionAnnotation, "x"))
	for name, tc := range map[string]struct {
		sets []*appsv1.ReplicaSet
		want int64
	}{
		"none":       {nil, 0},
		"one":        {[]*appsv1.ReplicaSet{makeSet(4, 0), bad}, 0},
		"ascending":  {[]*appsv1.ReplicaSet{makeSet(1, 0), makeSet(4, 0), makeSet(7, 0)}, 4},
		"descending": {[]*appsv1.ReplicaSet{makeSet(7, 0), makeSet(4, 0), makeSet(1, 0)}, 4},
	} {
		if got := lastRevision(tc.sets); got != tc.want {
			t.Errorf("%s: lastRevision() = %d, want %d", name, got, tc.want)
		}
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
