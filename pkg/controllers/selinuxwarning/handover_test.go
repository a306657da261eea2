package selinuxwarning

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// A successor has the conflicts without reporting them again, except for those of pods that are gone;
// one that begins from nothing reports them.
//
// Pins SEL-42 and SEL-43.
func TestASuccessorRepeatsNoEvent(t *testing.T) {
	env := controllertest.New(t, world(user("ns", "p", "s0:c1"), user("ns", "q", "s0:c2"), user("ns", "r", "s0:c3"), user("ns", "s", "s0:c4"))...)
	run := func() (*warner, func()) {
		c := must.Get(newController(env.Env))(t)
		env.Start(t)
		stop := env.Run(t, c)
		env.AwaitIdle(t)
		return c, stop
	}
	first, stop := run()
	if got := env.RecordedEvents(); len(got) != 12 {
		t.Errorf("%d events", len(got))
	}
	stop()
	env.Remove(t, user("ns", "r", ""))
	controllertest.Change(t, env, "ns", "s", controllertest.InPhase(corev1.PodFailed))
	controllertest.Eventually(t, "the cache shows it", func() bool {
		pod, err := first.pods.Pods("ns").Get("s")
		_, gone := first.pods.Pods("ns").Get("r")
		return err == nil && pods.IsTerminal(pod) && gone != nil
	})
	env.Succeed(first.HandOver())
	if got := env.Series(t, metric); len(got) != 0 {
		t.Errorf("gauges before it runs are %q", got)
	}
	second, stop := run()
	env.WantEvents(t)
	if got := env.Series(t, metric); len(got) != 2 {
		t.Errorf("gauges are %q", got)
	}
	stop()
	if got := second.HandOver(); len(got) != 2 {
		t.Errorf("it hands over %v", got)
	}
	env.Succeed(nil)
	run()
	if got := env.RecordedEvents(); len(got) != 2 {
		t.Errorf("events are %q", got)
	}
}

// A pod that has finished by the time of the takeover is not compared with others. Pins SEL-53.
func TestWhatIsTakenOver(t *testing.T) {
	f := begin(t, world(user("ns", "p", "s0:c1"), user("ns", "q", "s0:c2"), user("ns", "r", "s0:c3"))...)
	f.see(t, "ns/p", "ns/q", "ns/r")
	left := f.c.HandOver()
	f.RecordedEvents()
	f.Succeed(left)
	c := must.Get(newController(f.Env.Env))(t)
	f.Uncache(t, user("ns", "q", ""))
	f.Cache(t, user("ns", "r", "s0:c3", func(p *corev1.Pod) { p.UID = "second" }))
	if err := c.takeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !c.uses.has(key("p"), "p") || c.uses.has(key("q"), "q") || c.uses.has(key("r"), "r") {
		t.Errorf("taken over: %+v", c.uses.pods)
	}
	f.WantEvents(t)
}
