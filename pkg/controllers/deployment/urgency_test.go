package deployment

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Pins DEP-59.
func TestUrgencyOf(t *testing.T) {
	progress := condition("Progressing", "True", reasonUpdated)
	later := progress
	later.LastUpdateTime = metav1.NewTime(now)
	ready := condition("Available", "True", reasonAvailable)
	stored := makeDeployment(10, counts(10, 5, 8, 8), conditions(progress, ready))
	for _, tc := range []struct {
		name   string
		change func(*appsv1.Deployment)
		want   urgency
	}{
		{"nothing", func(*appsv1.Deployment) {}, unchanged},
		{"another spec is not ours to write", func(d *appsv1.Deployment) { d.Spec.Paused = true }, unchanged},
		{"numbers on their way", counts(10, 6, 9, 9), gradual},
		{"numbers on their way, with the time of the progress", func(d *appsv1.Deployment) {
			counts(10, 6, 9, 9)(d)
			d.Status.Conditions = []appsv1.DeploymentCondition{ready, later}
		}, gradual},
		{"terminating pods", func(d *appsv1.Deployment) { d.Status.TerminatingReplicas = ptr.To[int32](2) }, gradual},
		{"one number at its end", counts(10, 10, 9, 9), gradual},
		{"all numbers at their end", counts(10, 10, 10, 10), urgent},
		{"a new generation", func(d *appsv1.Deployment) { d.Status.ObservedGeneration++ }, urgent},
		{"a collision", func(d *appsv1.Deployment) { d.Status.CollisionCount = ptr.To[int32](1) }, urgent},
		{"another revision", annotated(revisionAnnotation, "2"), urgent},
		{"a new condition", conditions(progress, ready, condition("ReplicaFailure", "True", "X")), urgent},
		{"a condition gone", conditions(ready), urgent},
		{"another status", conditions(progress, condition("Available", "False", reasonAvailable)), urgent},
		{"another reason", conditions(condition("Progressing", "True", reasonComplete), ready), urgent},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := stored.DeepCopy()
			tc.change(d)
			if got := urgencyOf(stored, d); got != tc.want {
				t.Errorf("urgencyOf() = %d, want %d", got, tc.want)
			}
		})
	}
}

// A status that says all are there, while they are not, misleads its readers. Pins DEP-59.
func TestALossIsReportedAtOnce(t *testing.T) {
	all := makeDeployment(10, counts(10, 10, 10, 10))
	for name, tc := range map[string]struct {
		change func(*appsv1.Deployment)
		want   urgency
	}{
		"one is not ready":     {counts(10, 10, 9, 10), urgent},
		"one is not available": {counts(10, 10, 10, 9), urgent},
		"one is gone":          {counts(9, 9, 10, 10), gradual},
	} {
		d := all.DeepCopy()
		tc.change(d)
		if got := urgencyOf(all, d); got != tc.want {
			t.Errorf("%s: urgencyOf() = %d, want %d", name, got, tc.want)
		}
	}
}

func TestNumbersReachTheirEndOnce(t *testing.T) {
	stored := makeDeployment(10, counts(10, 10, 10, 10))
	d := stored.DeepCopy()
	stored.Status.TerminatingReplicas, d.Status.TerminatingReplicas = ptr.To[int32](0), ptr.To[int32](2)
	if got := urgencyOf(stored, d); got != gradual {
		t.Errorf("urgencyOf() = %d, want %d", got, gradual)
	}
	if got := urgencyOf(d, stored); got != urgent {
		t.Errorf("when the last terminating pod is gone, urgencyOf() = %d, want %d", got, urgent)
	}
}

func TestOrderOfConditionsIsStored(t *testing.T) {
	a, b := condition("Progressing", "True", "A"), condition("Available", "True", "B")
	if got := urgencyOf(makeDeployment(1, conditions(a, b)), makeDeployment(1, conditions(b, a))); got != gradual {
		t.Errorf("urgencyOf() = %d, want %d", got, gradual)
	}
}

func TestTimeZoneIsNoChange(t *testing.T) {
	a := condition("Progressing", "True", "A")
	b := a
	b.LastUpdateTime = metav1.NewTime(a.LastUpdateTime.In(time.FixedZone("", 3600)))
	if got := urgencyOf(makeDeployment(1, conditions(a)), makeDeployment(1, conditions(b))); got != unchanged {
		t.Errorf("urgencyOf() = %d, want %d", got, unchanged)
	}
}
