package pods

import (
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func node(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = name } }

func id(uid types.UID) func(*corev1.Pod) { return func(p *corev1.Pod) { p.UID = uid } }

func cost(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: value} }
}

func created(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-ago)) }
}

func restarts(counts ...int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, count := range counts {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{RestartCount: count})
		}
	}
}

// initRestarts adds an init container, a sidecar if it restarts always.
func initRestarts(name string, sidecar bool, count int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		container := corev1.Container{Name: name}
		if sidecar {
			container.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, container)
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{Name: name, RestartCount: count})
	}
}

func TestPreference(t *testing.T) {
	const s, h = time.Second, time.Hour
	running := phase(corev1.PodRunning)
	crowded := func(p *corev1.Pod) int { return map[string]int{"crowded": 3, "empty": 1}[p.Spec.NodeName] }
	for _, test := range []struct {
		name         string
		first, other *corev1.Pod
		equal        bool
		change       func(*Preference)
	}{
		{name: "WL-57: 1 unassigned before assigned", first: pod(running, ready(h)), other: pod(node("n"))},
		{name: "WL-57: 1 two unassigned are told apart by phase", first: pod(), other: pod(running)},
		{name: "WL-58: 2 pending before unknown", first: pod(phase(corev1.PodPending)), other: pod(phase(corev1.PodUnknown))},
		{name: "WL-58: 2 unknown before running", first: pod(phase(corev1.PodUnknown)), other: pod(running)},
		{name: "WL-58: 2 another phase is like pending", first: pod(phase("Strange")), other: pod(phase(corev1.PodUnknown))},
		{name: "WL-58: 2 another phase equals pending", first: pod(phase("Strange")), other: pod(phase(corev1.PodPending)), equal: true},
		{name: "WL-56, WL-58: 2 phase before readiness", first: pod(phase(corev1.PodPending), ready(h)), other: pod(running)},
		{name: "WL-59: 3 not ready before ready", first: pod(running, notReady), other: pod(running, ready(s))},
		{name: "WL-56, WL-59: 3 readiness before cost", first: pod(running, cost("100")), other: pod(running, ready(s), cost("-100"))},
		{name: "WL-60: 4 cheaper first", first: pod(cost("-5")), other: pod(cost("3"))},
		{name: "WL-60: 4 no cost is 0", first: pod(), other: pod(cost("1"))},
		{name: "WL-60: 4 an invalid cost is 0", first: pod(cost("-1")), other: pod(cost("+5"))},
		{name: "WL-56, WL-60: 4 cost before rank", first: pod(node("empty"), cost("1")), other: pod(node("crowded"), cost("2"))},
		{name: "WL-60: 4 cost is ignored if told so", first: pod(cost("9")), other: pod(cost("1")), equal: true,
			change: func(p *Preference) { p.DeletionCost = false }},
		{name: "WL-61: 5 higher rank first", first: pod(node("crowded")), other: pod(node("empty"))},
		{name: "WL-56, WL-61: 5 rank before ready time", first: pod(node("crowded"), ready(h)), other: pod(node("empty"), ready(s))},
		{name: "WL-61: 5 no ranks", first: pod(node("crowded")), other: pod(node("empty")), equal: true,
			change: func(p *Preference) { p.Rank = nil }},
		{name: "WL-62: 6 unknown ready time first", first: pod(ready(0)), other: pod(ready(s))},
		{name: "WL-62: 6 ready for less time first", first: pod(ready(s)), other: pod(ready(h))},
		{name: "WL-62: 6 ready in the future before everything known", first: pod(ready(-s), id("z")), other: pod(ready(1), id("a"))},
		{name: "WL-62: 6 similar ready times by uid", first: pod(ready(3*h), id("a")), other: pod(ready(3*h-s), id("b"))},
		{name: "WL-62: 6 uid decides even against restarts", first: pod(ready(3*h), id("a")), other: pod(ready(3*h-s), id("b"), restarts(9))},
		{name: "WL-62, WL-63: 6 restarts decide if ready times are equal", first: pod(ready(h), id("b"), restarts(2)), other: pod(ready(h), id("a"), restarts(1))},
		{name: "WL-62: 6 without a clock newer first", first: pod(ready(3*h-s), id("b")), other: pod(ready(3*h), id("a")),
			change: func(p *Preference) { p.Now = time.Time{} }},
		{name: "WL-62: 6 ready times do not count while not ready", first: pod(notReady, restarts(1)), other: pod(notReady)},
		{name: "WL-63: 7 more restarts first", first: pod(restarts(0, 7)), other: pod(restarts(5, 6))},
		{name: "WL-63: 7 sidecar restarts if those are equal", first: pod(restarts(2), initRestarts("a", true, 3)), other: pod(restarts(2), initRestarts("a", true, 1))},
		{name: "WL-63: 7 containers before sidecars", first: pod(restarts(3)), other: pod(restarts(2), initRestarts("a", true, 9))},
		{name: "WL-63: 7 init containers that end do not count", first: pod(restarts(2), initRestarts("a", false, 9)), other: pod(restarts(2)), equal: true},
		{name: "WL-56, WL-63: 7 restarts before creation", first: pod(restarts(1), created(h)), other: pod(created(s))},
		{name: "WL-64: 8 unknown creation first", first: pod(), other: pod(created(s))},
		{name: "WL-64: 8 younger first", first: pod(created(s)), other: pod(created(h))},
		{name: "WL-64: 8 similar ages by uid", first: pod(created(3*h), id("a")), other: pod(created(3*h-s), id("b"))},
		{name: "WL-64: 8 the last of one bucket before the first of the next", first: pod(created(1<<40-1), id("z")), other: pod(created(1<<40), id("a"))},
		{name: "WL-65: 9 equal", first: pod(created(h), id("a")), other: pod(created(h), id("b")), equal: true},
		{name: "WL-63: 7 nor do those whose policy says that they end", first: pod(initRestarts("a", true, 1)), equal: true,
			other: pod(initRestarts("a", true, 1), initRestarts("b", true, 9), func(p *corev1.Pod) {
				p.Spec.InitContainers[1].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
			})},
	} {
		t.Run(test.name, func(t *testing.T) {
			preference := Preference{Rank: crowded, Now: now, DeletionCost: true}
			if test.change != nil {
				test.change(&preference)
			}
			a, b := preference.victim(test.first), preference.victim(test.other)
			forth, back := preference.compare(a, b), preference.compare(b, a)
			if test.equal {
				if forth != 0 || back != 0 {
					t.Errorf("not equal: %d, %d", forth, back)
				}
				return
			}
			if forth >= 0 || back <= 0 {
				t.Errorf("wrong order: %d, %d", forth, back)
			}
		})
	}
}

// Pins WL-60.
func TestDeletionCost(t *testing.T) {
	for value, want := range map[string]int32{
		"": 0, "0": 0, "1": 1, "-1": -1, "2147483647": 2147483647, "-2147483648": -2147483648,
		"2147483648": 0, "-2147483649": 0, "+1": 0, "01": 0, "00": 0, " 1": 0, "1 ": 0, "1.5": 0, "x": 0, "-": 0, "1e3": 0,
	} {
		if got := deletionCost(map[string]string{corev1.PodDeletionCost: value}); got != want {
			t.Errorf("%q costs %d, want %d", value, got, want)
		}
	}
	if got := deletionCost(nil); got != 0 {
		t.Errorf("no annotation costs %d", got)
	}
}

// Pins WL-62.
func TestAgeBucket(t *testing.T) {
	for age, want := range map[time.Duration]int{-time.Hour: -1, 0: -1, 1: 0, 2: 1, 3: 1, 4: 2, 1023: 9, 1024: 10, time.Second: 29} {
		if got := ageBucket(age); got != want {
			t.Errorf("bucket of %d is %d, want %d", age, got, want)
		}
	}
}

// Pins WL-66.
func TestSortIsInPlaceAndComplete(t *testing.T) {
	want := []*corev1.Pod{
		pod(id("1"), cost("-1")),
		pod(id("2")),
		pod(id("3"), cost("1")),
		pod(id("4"), node("n"), phase(corev1.PodRunning), ready(time.Second)),
		pod(id("5"), node("n"), phase(corev1.PodRunning), ready(time.Hour)),
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		got := append([]*corev1.Pod(nil), want...)
		random.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		Preference{Now: now, DeletionCost: true}.Sort(got)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("at %d is %s, want %s", i, got[i].UID, want[i].UID)
			}
		}
	}
}
