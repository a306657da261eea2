package podgc

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins PODGC-30.
func TestQuarantine(t *testing.T) {
	q := newQuarantine()
	q.update([]string{"a", "there-again"}, start)
	q.update([]string{"a", "b"}, start.Add(10*time.Second)) // the earlier time stays
	if due := q.due(start.Add(39 * time.Second)); len(due) != 0 {
		t.Errorf("due early: %v", due)
	}
	left := q.state(start.Add(39 * time.Second))
	successor := newQuarantine()
	successor.takeOver(left, start.Add(45*time.Second))
	late := newQuarantine()
	late.takeOver(left, start.Add(39*time.Second+passPeriod+1))
	if len(late.ends) != 0 {
		t.Errorf("adopted after nobody had looked for longer than between two passes: %v", late.ends)
	}
	for range 2 { // they stay due
		if due := successor.due(start.Add(50 * time.Second)); !slices.Equal(due, []string{"a", "b"}) {
			t.Errorf("due: %v", due)
		}
	}
	successor.renew([]string{"b"}, start.Add(50*time.Second))
	if due := successor.due(start.Add(89 * time.Second)); !slices.Equal(due, []string{"a"}) {
		t.Errorf("due in the new period of b: %v", due)
	}
}

// Each node is read once, when its time is over. Pins PODGC-10, PODGC-16 and PODGC-33.
func TestPodsOfAMissingNode(t *testing.T) {
	env, gc := fixture(t, 0, node("node", corev1.ConditionTrue), pod("lost", on("missing")), pod("ended", on("missing"), phase(corev1.PodSucceeded)), pod("fine"))
	if got := pass(env, gc); got != nil {
		t.Errorf("at once: %q", got)
	}
	env.Clock.Step(39 * time.Second)
	if got := pass(env, gc); got != nil {
		t.Errorf("in quarantine: %q", got)
	}
	env.Clock.Step(time.Second)
	got := pass(env, gc)
	slices.Sort(got)
	if want := []string{"delete ended with grace 0", "delete lost with grace 0", "get missing", "patch status of lost"}; !slices.Equal(got, want) {
		t.Errorf("after quarantine: %q", got)
	}
	controllertest.Eventually(t, "the pods are gone", func() bool { return len(gc.indexed(index.PodsByNode, "missing")) == 0 })
	for range 3 {
		if got := pass(env, gc); got != nil {
			t.Errorf("in a pass after it: %q", got)
		}
		env.Clock.Step(passPeriod)
	}
	env.WantEvents(t)
}

// A new pod may have been bound to a node that is registered again while it is read. Pins PODGC-12.
func TestPodsThatArriveWhileTheirNodeIsReadAreKept(t *testing.T) {
	env, gc := fixture(t, 0, pod("lost", on("missing")))
	pass(env, gc)
	env.Intercept("get nodes missing", func(clienttesting.Action) error {
		env.Store(t, pod("new", on("missing")))
		controllertest.Eventually(t, "the cache shows it", func() bool { return len(gc.indexed(index.PodsByNode, "missing")) == 2 })
		return apierrors.NewNotFound(corev1.Resource("nodes"), "missing")
	})
	env.Clock.Step(quarantinePeriod)
	if got, want := pass(env, gc), []string{"get missing", "patch status of lost", "delete lost with grace 0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAnOrphanThatCouldNotBeDeletedIsTriedAgainAfterAnotherQuarantine(t *testing.T) {
	for name, refused := range map[string]string{"PODGC-19: it cannot be failed": "patch pods/status lost", "PODGC-34: its node cannot be read": "get nodes missing"} {
		t.Run(name, func(t *testing.T) {
			env, gc := fixture(t, 0, pod("lost", on("missing")))
			env.RefuseIf(refused, apierrors.NewInternalError(errors.New("boom")), func(n int) bool { return n == 1 })
			pass(env, gc)
			env.Clock.Step(quarantinePeriod)
			if got := pass(env, gc); !slices.Contains(got, "get missing") || slices.Contains(got, "delete lost with grace 0") {
				t.Errorf("when it is refused: %q", got)
			}
			env.Clock.Step(passPeriod)
			if got := pass(env, gc); got != nil {
				t.Errorf("in the next pass: %q", got)
			}
			env.Clock.Step(passPeriod)
			if got, want := pass(env, gc), []string{"get missing", "patch status of lost", "delete lost with grace 0"}; !slices.Equal(got, want) {
				t.Errorf("in the pass after it: %q, want %q", got, want)
			}
		})
	}
}

// Pins PODGC-10 and PODGC-20.
func TestANodeThatMayExistKeepsItsPods(t *testing.T) {
	for name, answer := range map[string]error{"it exists": nil, "the lookup fails": errors.New("boom"), "it is forbidden": apierrors.NewForbidden(corev1.Resource("nodes"), "missing", nil)} {
		t.Run(name, func(t *testing.T) {
			env, gc := fixture(t, 0, pod("lost", on("missing")))
			env.Fake.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, node("missing", corev1.ConditionTrue), answer
			})
			pass(env, gc)
			env.Clock.Step(time.Minute)
			if got := pass(env, gc); !slices.Equal(got, []string{"get missing"}) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// Pins PODGC-30.
func TestTheQuarantineGoesOnAfterARestart(t *testing.T) {
	env, gc := fixture(t, 0, pod("lost", on("missing")))
	pass(env, gc)
	env.Clock.Step(35 * time.Second)
	if got := after(t, env, gc.HandOver(), 5*time.Second); !slices.Contains(got, "delete lost with grace 0") {
		t.Errorf("got %q", got)
	}
}

// Wherever a stop ends the pass in which nodes are due, the successor continues with them in its first pass.
// Pins PODGC-30.
func TestNodesThatWereDueAtAStopAreHandedOver(t *testing.T) {
	for _, last := range []string{"get nodes", "patch pods/status", "delete pods"} {
		t.Run(last, func(t *testing.T) {
			env, gc := fixture(t, 0, pod("a", on("missing-a")), pod("b", on("missing-b")))
			pass(env, gc)
			stopped, stop := context.WithCancel(env.Context())
			defer stop()
			allow := env.Refuse(last, apierrors.NewInternalError(errors.New("boom")))
			env.Intercept(last, func(clienttesting.Action) error {
				stop()
				return nil
			})
			env.Clock.Step(quarantinePeriod)
			gc.pass(stopped, env.Context())
			allow()
			env.Fake.ClearActions()
			got := after(t, env, gc.HandOver(), time.Second)
			if !slices.Contains(got, "delete a with grace 0") || !slices.Contains(got, "delete b with grace 0") {
				t.Errorf("the successor sent %q", got)
			}
		})
	}
}

// A node may have been registered and removed again while another process looked: it gets
// its whole time from when it is missed again.
// Pins PODGC-30.
func TestTheQuarantineDoesNotOutliveAStandby(t *testing.T) {
	env, gc := fixture(t, 0, pod("lost", on("missing")))
	pass(env, gc)
	left := gc.HandOver()
	if got := after(t, env, left, time.Minute); got != nil {
		t.Errorf("without quarantine: %q", got)
	}
}

// An instance that is stopped before it could begin passes on what it was given, as old as
// it is.
// Pins PODGC-30.
func TestTheQuarantineIsPassedOnByAnInstanceThatDidNotBegin(t *testing.T) {
	env, gc := fixture(t, 0, pod("lost", on("missing")))
	pass(env, gc)
	env.Succeed(gc.HandOver())
	env.Clock.Step(time.Minute)
	if got := after(t, env, env.Succession.HandOver(), time.Second); got != nil {
		t.Errorf("without quarantine: %q", got)
	}
}

// TestANodeThatWasRegisteredInBetweenGetsItsWholeTime: it has not been missing for 40 seconds.
// Pins PODGC-30.
func TestANodeThatWasRegisteredInBetweenGetsItsWholeTime(t *testing.T) {
	env, gc := fixture(t, 0, pod("lost", on("missing")))
	nodes := env.Fake.CoreV1().Nodes()
	shown := func(want bool) func() bool {
		return func() bool {
			_, err := gc.nodes.Get("missing")
			return (err == nil) == want
		}
	}
	pass(env, gc)
	if _, err := nodes.Create(t.Context(), node("missing", corev1.ConditionTrue), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "the node is there", shown(true))
	env.Clock.Step(passPeriod)
	pass(env, gc)
	if err := nodes.Delete(t.Context(), "missing", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "the node is gone", shown(false))
	env.Fake.ClearActions()
	env.Clock.Step(passPeriod)
	if got := pass(env, gc); got != nil {
		t.Errorf("missing for no time: %q", got)
	}
	env.Clock.Step(quarantinePeriod)
	if got := pass(env, gc); !slices.Contains(got, "delete lost with grace 0") {
		t.Errorf("after its time: %q", got)
	}
}

// Only the quarantine is lost if nothing is handed over: a node that was almost due has its whole time again, and what
// no quarantine holds up is deleted in the first pass. Pins PODGC-24.
func TestWithoutAHandoverOnlyOrphansAreDeletedLater(t *testing.T) {
	env, gc := fixture(t, 0, pod("lost", on("missing")), pod("never", on(""), deleting, phase(corev1.PodFailed)))
	env.Refuse("delete pods never", errors.New("boom"))
	pass(env, gc)
	env.Clock.Step(quarantinePeriod - time.Second)
	env.Succeed(nil)
	successor := must.Get(newController(env.Env, config{}))(t)
	if err := successor.begin(env.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := pass(env, successor); !slices.Equal(got, []string{"delete never with grace 0"}) {
			t.Errorf("a pass before the node is due sent %q", got)
		}
		env.Clock.Step(quarantinePeriod - time.Second)
	}
	if got := pass(env, successor); !slices.Contains(got, "delete lost with grace 0") {
		t.Errorf("a pass after it sent %q", got)
	}
}
