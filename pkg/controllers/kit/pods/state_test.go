package pods

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{}
	for _, change := range changes {
		change(p)
	}
	return p
}

func phase(ph corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = ph }
}

func beingDeleted(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }

// ready makes a pod ready since some time before now; 0 since always.
func ready(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		condition := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
		if ago != 0 {
			condition.LastTransitionTime = metav1.NewTime(now.Add(-ago))
		}
		p.Status.Conditions = append(p.Status.Conditions, condition)
	}
}

func notReady(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
	})
}

// Pins WL-51.
func TestLifecycle(t *testing.T) {
	for _, test := range []struct {
		phase                           corev1.PodPhase
		deleted                         bool
		active, terminal, isTerminating bool
	}{
		{corev1.PodPending, false, true, false, false},
		{corev1.PodRunning, false, true, false, false},
		{corev1.PodUnknown, false, true, false, false},
		{"", false, true, false, false},
		{corev1.PodSucceeded, false, false, true, false},
		{corev1.PodFailed, false, false, true, false},
		{corev1.PodRunning, true, false, false, true},
		{corev1.PodPending, true, false, false, true},
		{corev1.PodSucceeded, true, false, true, false},
		{corev1.PodFailed, true, false, true, false},
	} {
		p := pod(phase(test.phase))
		if test.deleted {
			beingDeleted(p)
		}
		if IsActive(p) != test.active || IsTerminal(p) != test.terminal || IsTerminating(p) != test.isTerminating {
			t.Errorf("%q, deleted %v: active %v, terminal %v, terminating %v",
				test.phase, test.deleted, IsActive(p), IsTerminal(p), IsTerminating(p))
		}
	}
}

// Pins WL-52 and WL-53.
func TestReadyAndAvailable(t *testing.T) {
	other := func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	}
	for _, test := range []struct {
		name             string
		pod              *corev1.Pod
		minReady         int32
		ready, available bool
	}{
		{"no condition", pod(other), 0, false, false},
		{"condition is false", pod(notReady), 0, false, false},
		{"condition is false since long", pod(notReady), 10, false, false},
		{"ready", pod(other, ready(time.Second)), 0, true, true},
		{"ready in whatever phase", pod(phase(corev1.PodFailed), ready(time.Second)), 0, true, true},
		{"the first condition counts", pod(notReady, ready(time.Hour)), 0, false, false},
		{"not for long enough", pod(ready(9 * time.Second)), 10, true, false},
		{"for exactly long enough", pod(ready(10 * time.Second)), 10, true, true},
		{"for longer", pod(ready(11 * time.Second)), 10, true, true},
		{"nobody knows since when", pod(ready(0)), 10, true, false},
		{"nobody knows since when, nor needs to", pod(ready(0)), 0, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := IsReady(test.pod); got != test.ready {
				t.Errorf("ready: %v", got)
			}
			if got := IsAvailable(test.pod, test.minReady, now); got != test.available {
				t.Errorf("available: %v", got)
			}
		})
	}
}

// Pins WL-54.
func TestNextAvailabilityCheck(t *testing.T) {
	for _, test := range []struct {
		name     string
		pods     []*corev1.Pod
		minReady int32
		later    time.Duration // from the status to the question
		want     time.Duration
		ok       bool
	}{
		{"no pods", nil, 10, 0, 0, false},
		{"no minimum", []*corev1.Pod{pod(ready(time.Second))}, 0, 0, 0, false},
		{"no minimum, and ready in the future of a skewed clock", []*corev1.Pod{pod(ready(-time.Second))}, 0, 0, 0, false},
		{"the least minimum", []*corev1.Pod{pod(ready(time.Millisecond))}, 1, 0, 999 * time.Millisecond, true},
		{"not ready any more", []*corev1.Pod{pod(notReady)}, 2 * 3600, 0, 0, false},
		{"all available, not ready or unknown", []*corev1.Pod{pod(ready(time.Minute)), pod(notReady), pod(ready(0))}, 10, 0, 0, false},
		{"available at this very instant", []*corev1.Pod{pod(ready(10 * time.Second))}, 10, 0, 0, false},
		{"the soonest", []*corev1.Pod{pod(ready(time.Second)), pod(ready(7 * time.Second)), pod(ready(3 * time.Second))}, 10, 0, 3 * time.Second, true},
		{"time passed since the status", []*corev1.Pod{pod(ready(7 * time.Second))}, 10, time.Second, 2 * time.Second, true},
		{"became available since the status", []*corev1.Pod{pod(ready(7 * time.Second))}, 10, 4 * time.Second, 0, true},
		{"ready in the future of a skewed clock", []*corev1.Pod{pod(ready(-2 * time.Second))}, 10, 0, 12 * time.Second, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(now.Add(test.later))
			got, ok := NextAvailabilityCheck(test.pods, test.minReady, now, clock)
			if got != test.want || ok != test.ok {
				t.Errorf("got %v, %v, want %v, %v", got, ok, test.want, test.ok)
			}
		})
	}
}
