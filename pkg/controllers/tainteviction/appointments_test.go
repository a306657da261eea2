package tainteviction

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Pins TAINT-15, TAINT-19 and TAINT-35.
func TestTaintsComeAndGo(t *testing.T) {
	env, c := fixture(t, node(), tolerating(tolerates("a", 60), tolerates("b", 10)))
	wantNothingPending(t, env, c)
	nodeChanged(t, env, c, node(taint("a")))
	wantPending(t, env, c, time.Minute)
	env.Clock.Step(9 * time.Second)
	nodeChanged(t, env, c, node(taint("a"), taint("b")))
	wantPending(t, env, c, 51*time.Second)
	env.WantEvents(t)
	nodeChanged(t, env, c, node(corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule}))
	wantNothingPending(t, env, c)
	env.WantEvents(t, cancelling)
	nodeChanged(t, env, c, node())
	env.WantEvents(t)
	nodeChanged(t, env, c, node(taint("b")))
	wantPending(t, env, c, 10*time.Second)
	env.WantRequests(t)
}

// Pins TAINT-15 and TAINT-27.
func TestPodsOfANodeThatIsGoneKeepTheirAppointments(t *testing.T) {
	env, c := fixture(t, node(taint("a")), tolerating(tolerates("a", 60)))
	env.Clock.Step(10 * time.Second)
	env.Uncache(t, node())
	if err := c.reconcileNode(env.Context(), "node"); err != nil {
		t.Fatal(err)
	}
	podChanged(t, env, c, tolerating(tolerates("a")))
	wantPending(t, env, c, 50*time.Second)
	env.WantEvents(t)
	nodeChanged(t, env, c, node())
	wantNothingPending(t, env, c)
	env.WantEvents(t, cancelling)
}

func TestPodItems(t *testing.T) {
	unscheduled := tolerating()
	unscheduled.Spec.NodeName = ""
	for name, tc := range map[string]struct {
		taints []corev1.Taint
		pod    *corev1.Pod
		want   time.Duration // -1 for no appointment
	}{
		"TAINT-16: not scheduled":                  {[]corev1.Taint{taint("a")}, unscheduled, -1},
		"TAINT-16: on a node without taints":       {nil, tolerating(), -1},
		"TAINT-16: tolerates nothing":              {[]corev1.Taint{taint("a")}, tolerating(), 0},
		"TAINT-16: tolerates for some time":        {[]corev1.Taint{taint("a")}, tolerating(tolerates("a", 7)), 7 * time.Second},
		"TAINT-16: tolerates":                      {[]corev1.Taint{taint("a")}, tolerating(tolerates("a")), -1},
		"TAINT-16: tolerates something else":       {[]corev1.Taint{taint("a")}, tolerating(tolerates("b")), 0},
		"TAINT-16: other effects matter to others": {[]corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}, tolerating(), -1},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, node(tc.taints...))
			podChanged(t, env, c, tc.pod)
			if tc.want < 0 {
				wantNothingPending(t, env, c)
				return
			}
			wantPending(t, env, c, tc.want)
			if made := c.appointments.state()[podKey]; made.isImmediate() != (tc.want == 0) {
				t.Errorf("made %+v", made)
			}
		})
	}
}

// Pins TAINT-17c, TAINT-17d and TAINT-17e.
func TestTolerationsChange(t *testing.T) {
	env, c := fixture(t, node(taint("a")))
	podChanged(t, env, c, tolerating(tolerates("a")))
	wantNothingPending(t, env, c)
	podChanged(t, env, c, tolerating(tolerates("a", 60)))
	wantPending(t, env, c, time.Minute)
	env.Clock.Step(time.Second)
	podChanged(t, env, c, tolerating(tolerates("a", 600)))
	wantPending(t, env, c, 59*time.Second)
	podChanged(t, env, c, tolerating(tolerates("a")))
	wantNothingPending(t, env, c)
	env.WantEvents(t, cancelling)
	podChanged(t, env, c, tolerating(tolerates("a", 60)))
	podChanged(t, env, c, tolerating())
	wantPending(t, env, c, 0)
	env.WantEvents(t, cancelling)
}

// An eviction that was due may be postponed while deletions are paused or stopped. Pins TAINT-50.
func TestAnAppointmentThatIsNotDueDoesNotBegin(t *testing.T) {
	env, c := fixture(t, node(taint("a")), tolerating(tolerates("a", 60)))
	begins := func() bool {
		_, _, ok := c.appointments.begin(identity{podKey, "pod"}, env.Clock.Now())
		return ok
	}
	env.Clock.Step(time.Minute - 1)
	if begins() {
		t.Error("it begins before its time")
	}
	env.Clock.Step(1)
	if !begins() {
		t.Error("it does not begin at its time")
	}
}

// Pins TAINT-16, TAINT-23 and TAINT-42.
func TestAnAppointmentIsWithOnePod(t *testing.T) {
	env, c := fixture(t, node(taint("a")), tolerating(tolerates("a", 60)))
	env.Clock.Step(10 * time.Second)
	another := tolerating(tolerates("a", 60))
	another.UID = "another"
	podChanged(t, env, c, another)
	wantPending(t, env, c, time.Minute)
	env.WantEvents(t, cancelling)
	env.Clock.Step(55 * time.Second)
	if err := c.evict(env.Context(), identity{podKey, "pod"}); err != nil {
		t.Fatal(err)
	}
	wantPending(t, env, c, 5*time.Second)
	env.WantRequests(t)

	env.Uncache(t, another)
	if err := c.reconcilePod(env.Context(), podKey); err != nil {
		t.Fatal(err)
	}
	wantNothingPending(t, env, c)
	env.WantEvents(t, cancelling)
}
