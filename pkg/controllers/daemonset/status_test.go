package daemonset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

// Pins DS-38.
func TestCount(t *testing.T) {
	for _, test := range []struct {
		name  string
		set   *appsv1.DaemonSet
		sites map[string]eligibility
		pods  []*corev1.Pod
		want  counts
	}{
		{"no nodes", newSet(), nil, nil, counts{}},
		{"no pods", newSet(), sitesOf(2), nil, counts{desired: 2, unavailable: 2}},
		{"all is well", newSet(), sitesOf(1), []*corev1.Pod{newPod("a", "n0")}, counts{desired: 1, current: 1, ready: 1, updated: 1, available: 1}},
		{"old", newSet(), sitesOf(1), []*corev1.Pod{newPod("a", "n0", old)}, counts{desired: 1, current: 1, ready: 1, available: 1}},
		{"old by hash, of the same template generation", newSet(templateGenerationOf("2")), sitesOf(1), []*corev1.Pod{newPod("a", "n0", old, generation("2"))},
			counts{desired: 1, current: 1, ready: 1, updated: 1, available: 1}},
		{"pinned", newSet(), sitesOf(1), []*corev1.Pod{newPod("a", "n0", pinned)}, counts{desired: 1, current: 1, updated: 1, unavailable: 1}},
		{"not yet available", newSet(minReady(1)), sitesOf(1), []*corev1.Pod{newPod("a", "n0")}, counts{desired: 1, current: 1, ready: 1, updated: 1, unavailable: 1}},
		{"the oldest of two counts", newSet(), sitesOf(1), []*corev1.Pod{newPod("new", "n0", unready), newPod("old", "n0", old, age(time.Minute))},
			counts{desired: 1, current: 1, ready: 1, available: 1}},
		{"deleting pods count", newSet(), sitesOf(1), []*corev1.Pod{newPod("a", "n0", deleting)}, counts{desired: 1, current: 1, ready: 1, updated: 1, available: 1}},
		{"deleting pods that have ended do not count", newSet(), sitesOf(1), []*corev1.Pod{newPod("a", "n0", deleting, phase(corev1.PodFailed))}, counts{desired: 1, unavailable: 1}},
		{"misscheduled", newSet(), map[string]eligibility{"n0": remains, "n1": never, "n2": remains}, []*corev1.Pod{newPod("a", "n0"), newPod("b", "n0"), newPod("c", "n1")},
			counts{misscheduled: 2}},
		{"nodes that are gone do not count", newSet(), nil, []*corev1.Pod{newPod("a", "gone")}, counts{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := observationOf(test.set, test.sites, test.pods...).count()
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(counts{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Pins DS-40.
func TestNextAvailability(t *testing.T) {
	readySince := func(d time.Duration) func(*corev1.Pod) { return controllertest.ReadySince(start.Add(-d)) }
	for _, test := range []struct {
		name string
		set  *appsv1.DaemonSet
		pods []*corev1.Pod
		want time.Duration // negative for never
	}{
		{"it is available as soon as it is ready", newSet(), []*corev1.Pod{newPod("a", "n0")}, -1},
		{"all are available", newSet(minReady(30)), []*corev1.Pod{newPod("a", "n0", readySince(30*time.Second))}, -1},
		{"nothing is ready", newSet(minReady(30)), []*corev1.Pod{newPod("a", "n0", unready)}, -1},
		{"DS-70: the next of two", newSet(minReady(30)), []*corev1.Pod{newPod("a", "n0", readySince(5*time.Second)), newPod("b", "n1", readySince(10*time.Second))}, 20 * time.Second},
		{"nobody knows since when it is ready", newSet(minReady(30)), []*corev1.Pod{newPod("a", "n0", controllertest.ReadySince(time.Time{}))}, 30 * time.Second},
		{"DS-70: a surge, the old one is available and the new one is not yet", newSet(surging(1), minReady(30)),
			[]*corev1.Pod{newPod("new", "n0", readySince(5*time.Second)), newPod("old", "n0", old, age(time.Hour), readySince(time.Hour))}, 25 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t, true)
			o := observationOf(test.set, sitesOf(2), test.pods...)
			got, ok := h.c.nextAvailability(o, o.count())
			if ok != (test.want >= 0) || ok && got != test.want {
				t.Errorf("it looks again in %v, %v, want %v", got, ok, test.want)
			}
		})
	}
}

// Pins DS-38.
func TestStatusKeepsWhatItDoesNotCount(t *testing.T) {
	ds := newSet(func(ds *appsv1.DaemonSet) {
		ds.Status = appsv1.DaemonSetStatus{
			ObservedGeneration: 1, NumberReady: 9, CollisionCount: ptr.To[int32](4),
			Conditions: []appsv1.DaemonSetCondition{{Type: "Other"}},
		}
	})
	before := ds.DeepCopy()
	c := counts{desired: 1, current: 2, misscheduled: 3, ready: 4, updated: 5, available: 6, unavailable: 7}
	got := withCounts(ds, c, 8)
	want := appsv1.DaemonSetStatus{
		DesiredNumberScheduled: 1, CurrentNumberScheduled: 2, NumberMisscheduled: 3, NumberReady: 4,
		UpdatedNumberScheduled: 5, NumberAvailable: 6, NumberUnavailable: 7, ObservedGeneration: 8,
		CollisionCount: ptr.To[int32](4), Conditions: []appsv1.DaemonSetCondition{{Type: "Other"}},
	}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Error(diff)
	}
	if countsOf(got.Status) != c {
		t.Errorf("read back as %+v", countsOf(got.Status))
	}
	if diff := cmp.Diff(before, ds); diff != "" {
		t.Errorf("the cached set was changed: %s", diff)
	}
}

// Pins DS-60.
func TestUrgent(t *testing.T) {
	was := counts{desired: 3, current: 2, ready: 2, updated: 2, available: 2, unavailable: 1, misscheduled: 2}
	for _, test := range []struct {
		name          string
		change        func(*counts)
		newGeneration bool
		want          bool
	}{
		{"nothing", func(*counts) {}, false, false},
		{"a new generation", func(*counts) {}, true, true},
		{"on the way up", func(c *counts) { c.desired, c.current = 9, 3 }, false, false},
		{"all are there", func(c *counts) { c.current = 3 }, false, true},
		{"all are ready", func(c *counts) { c.ready = 3 }, false, true},
		{"all are updated", func(c *counts) { c.updated = 3 }, false, true},
		{"all are available", func(c *counts) { c.available, c.unavailable = 3, 0 }, false, true},
		{"fewer are out of place", func(c *counts) { c.misscheduled = 1 }, false, false},
		{"none are out of place", func(c *counts) { c.misscheduled = 0 }, false, true},
	} {
		is := was
		test.change(&is)
		if got := urgent(was, is, test.newGeneration); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
	all := counts{desired: 3, current: 3, ready: 3, updated: 3, available: 3}
	for name, test := range map[string]struct {
		change func(*counts)
		want   bool
	}{
		"one is not ready":     {func(c *counts) { c.ready = 2 }, true},
		"one is not available": {func(c *counts) { c.available = 2 }, true},
		"one is gone":          {func(c *counts) { c.current = 2 }, false},
		"one more is wanted":   {func(c *counts) { c.desired = 4 }, false},
	} {
		is := all
		test.change(&is)
		if got := urgent(all, is, false); got != test.want {
			t.Errorf("of all, %s: %v", name, got)
		}
	}
}
