package endpointslice

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/services/slicewrites"
)

// succeed makes the successor of an instance, with caches that hold the objects.
func succeed(t *testing.T, b *bench, objects ...runtime.Object) *bench {
	t.Helper()
	left := b.Succession.HandOver()
	next := newBench(t, defaults, objects...)
	next.Clock.SetTime(b.Clock.Now())
	next.Succession.Leave(left)
	return next
}

func topologyMode(s *corev1.Service) {
	s.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto"}
}

// Pins EPS-67 and EPS-84.
func TestSuccessorWaitsForUnseenWrites(t *testing.T) {
	objects := []runtime.Object{testService(), testNode("node-a", "zone-a"), testPod(1)}
	b := newBench(t, defaults, objects...).begin(t)
	b.c.written.Wrote(testSlice("unseen"))

	next := succeed(t, b, objects...).begin(t)
	next.Fake.PrependReactor("get", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, testSlice("unseen"), nil
	})
	if err := next.Reconcile(); !errors.Is(err, slicewrites.ErrStaleCache) {
		t.Errorf("error is %v, want a stale cache", err)
	}
	gone := succeed(t, b, objects...).begin(t)
	gone.MustReconcile(t)
	if len(gone.stored(t)) != 1 {
		t.Error("EPS-84: a slice that is gone still counts")
	}

	late := succeed(t, b, objects...)
	late.Clock.Step(slicewrites.StaleTimeout)
	late.begin(t).MustReconcile(t)
	if len(late.stored(t)) != 1 {
		t.Error("after a long stop the unseen writes still count")
	}
}

// Pins EPS-51 and EPS-67.
func TestSuccessorRemembersTriggerTimesAndHints(t *testing.T) {
	onB := func(p *corev1.Pod) { p.Spec.NodeName = "node-b" }
	objects := []runtime.Object{testService(topologyMode), testNode("node-a", "zone-a"), testNode("node-b", "zone-b"), testPod(1), testPod(2, onB)}
	b := newBench(t, defaults, objects...).begin(t)
	b.MustReconcile(t)
	slice := b.one(t)
	b.observed(t)
	if n := len(b.RecordedEvents()); n != 1 {
		t.Fatalf("%d events, want one that hints are enabled", n)
	}

	readyAt := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	changed := append(slices.Clone(objects[:3]), testPod(1, func(p *corev1.Pod) {
		p.Status.Conditions[0].LastTransitionTime.Time = readyAt
		p.Status.Conditions[0].Status = corev1.ConditionFalse
	}), testPod(2, onB), testPod(3), slice)
	next := succeed(t, b, changed...).begin(t)
	next.MustReconcile(t)
	if got, want := next.one(t).Annotations[corev1.EndpointsLastChangeTriggerTime], readyAt.Format(time.RFC3339Nano); got != want {
		t.Errorf("trigger time is %q, want %q", got, want)
	}
	if events := next.RecordedEvents(); len(events) != 0 {
		t.Errorf("events are %q, want none: the hints were enabled before", events)
	}
}

// Nobody sees the deletion of a Service between two instances. Pins EPS-71.
func TestSuccessorForgetsServicesThatAreGone(t *testing.T) {
	onB := func(p *corev1.Pod) { p.Spec.NodeName = "node-b" }
	objects := []runtime.Object{testNode("node-a", "zone-a"), testNode("node-b", "zone-b"), testPod(1), testPod(2, onB), testService(topologyMode)}
	b := newBench(t, defaults, objects...).begin(t)
	b.MustReconcile(t)
	if !b.c.topology.cache.HasPopulatedHints(web.String()) {
		t.Fatal("there are no hints")
	}
	kept := succeed(t, b, objects...).begin(t)
	if len(kept.c.triggers.ServiceStates) != 1 || !kept.c.topology.cache.HasPopulatedHints(web.String()) {
		t.Error("a Service that exists is forgotten")
	}
	next := succeed(t, kept, objects[:4]...).begin(t)
	if known := next.c.triggers.ServiceStates; len(known) != 0 {
		t.Errorf("trigger times are remembered: %v", known)
	}
	if next.c.topology.cache.HasPopulatedHints(web.String()) {
		t.Error("hints are remembered")
	}
}

func TestSuccessorIgnoresWhatItDoesNotKnow(t *testing.T) {
	b := newBench(t, defaults, testService())
	b.Succession.Leave("something else")
	b.begin(t).MustReconcile(t)
	b.one(t)
}

func TestInstanceThatNeverBeganPassesOnWhatItWasLeft(t *testing.T) {
	first := newBench(t, defaults).begin(t)
	second := succeed(t, first)
	third := succeed(t, second).begin(t)
	if third.c.triggers != first.c.triggers || third.c.topology.cache != first.c.topology.cache {
		t.Error("what the first instance knew is lost")
	}
}
