package statefulset

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type (
	setChange = func(*appsv1.StatefulSet)
	podChange = func(*corev1.Pod)
)

func TestReplicaStep(t *testing.T) {
	justReady := readySince(start.Add(-5 * time.Second))
	for _, test := range []struct {
		name              string
		pod               []podChange
		set               []setChange
		ordered, parallel step
	}{
		{"ready", nil, nil, stepKeep, stepKeep},
		{"STS-25c: not created yet", []podChange{phase(""), notReady}, nil, stepCreate, stepCreate},
		{"pending", []podChange{phase(corev1.PodPending), notReady}, nil, stepWait, stepKeep},
		{"STS-25e: running, not ready", []podChange{notReady}, nil, stepWait, stepKeep},
		{"STS-25e: ready, phase unknown", []podChange{phase(corev1.PodUnknown)}, nil, stepWait, stepKeep},
		{"being deleted", []podChange{terminating}, nil, stepWait, stepKeep},
		{"STS-25b: failed", []podChange{phase(corev1.PodFailed), notReady}, nil, stepRemove, stepRemove},
		{"STS-25b: succeeded", []podChange{phase(corev1.PodSucceeded), notReady}, nil, stepRemove, stepRemove},
		{"STS-25b: failed, being deleted", []podChange{phase(corev1.PodFailed), terminating}, nil, stepWait, stepWait},
		{"STS-25e: ready, not for long enough", []podChange{justReady}, []setChange{minReady(6)}, stepWait, stepKeep},
		{"STS-25e: ready just long enough", []podChange{justReady}, []setChange{minReady(5)}, stepKeep, stepKeep},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := newSet(1, test.set...)
			pod := podAt(set, "r", 0, test.pod...)
			if got := replicaStep(set, pod, start); got != test.ordered {
				t.Errorf("ordered: %s, want %s", got, test.ordered)
			}
			parallel(set)
			if got := replicaStep(set, pod, start); got != test.parallel {
				t.Errorf("parallel: %s, want %s", got, test.parallel)
			}
		})
	}
}

// Pins STS-27.
func TestCondemnedStep(t *testing.T) {
	for _, test := range []struct {
		name              string
		pod               []podChange
		first             bool
		ordered, parallel step
	}{
		{"ready", nil, false, stepRemove, stepRemove},
		{"being deleted", []podChange{terminating}, true, stepWait, stepKeep},
		{"not ready, nor is a lower pod", []podChange{notReady}, false, stepWait, stepRemove},
		{"not ready, the first", []podChange{notReady}, true, stepRemove, stepRemove},
		{"not available, nor is a lower pod", []podChange{readySince(start)}, false, stepWait, stepRemove},
		{"failed, the first", []podChange{phase(corev1.PodFailed), notReady}, true, stepRemove, stepRemove},
		{"STS-77: failed, a lower pod is not available", []podChange{phase(corev1.PodFailed), notReady}, false, stepRemove, stepRemove},
		{"STS-77: succeeded, a lower one is not available", []podChange{phase(corev1.PodSucceeded), notReady}, false, stepRemove, stepRemove},
		{"STS-77: failed and being deleted", []podChange{phase(corev1.PodFailed), notReady, terminating}, false, stepWait, stepKeep},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := newSet(0, minReady(3))
			pod := podAt(set, "r", 0, test.pod...)
			first := podAt(set, "r", 9)
			if test.first {
				first = pod
			}
			if got := condemnedStep(set, pod, first, start); got != test.ordered {
				t.Errorf("ordered: %s, want %s", got, test.ordered)
			}
			parallel(set)
			if got := condemnedStep(set, pod, first, start); got != test.parallel {
				t.Errorf("parallel: %s, want %s", got, test.parallel)
			}
		})
	}
}

// slots describes pods by ordinal; those that do not exist have a plus.
func slots(pods []*corev1.Pod) string {
	var all []string
	for _, pod := range pods {
		text := fmt.Sprint(ordinalOf(pod))
		if !isCreated(pod) {
			text += "+"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func TestLayOut(t *testing.T) {
	type at struct {
		ordinal int
		change  podChange
	}
	ready := func(*corev1.Pod) {}
	for _, test := range []struct {
		name                string
		set                 []setChange
		replicas            int32
		pods                []at
		filled, rest, first string
	}{
		{"STS-22: no pod exists", []setChange{parallel}, 2, nil, "0+ 1+", "", "0"},
		{"STS-22: no pod exists, in order", nil, 2, nil, "0+", "", "0"},
		{"STS-22: all pods exist", nil, 2, []at{{1, ready}, {0, ready}}, "0 1", "", ""},
		{"STS-22, STS-23: a gap", nil, 3, []at{{0, ready}, {2, ready}}, "0 1+ 2", "", "1"},
		{"STS-22: gaps", []setChange{parallel}, 5, []at{{3, ready}, {1, ready}}, "0+ 1 2+ 3 4+", "", "0"},
		{"STS-72: gaps, in order", nil, 5, []at{{3, ready}, {1, ready}}, "0+ 1 3", "", "0"},
		{"STS-22: too many pods", nil, 1, []at{{1, ready}, {0, ready}, {3, ready}}, "0", "3 1", ""},
		{"STS-23: a condemned pod is unavailable", nil, 1, []at{{3, notReady}, {0, ready}, {2, notReady}}, "0", "3 2", "2"},
		{"STS-77: a condemned pod that has finished", nil, 1, []at{{3, notReady}, {0, ready}, {2, phase(corev1.PodFailed)}}, "0", "3 2", "3"},
		{"STS-23: a replica comes before condemned ones", nil, 2, []at{{0, ready}, {1, terminating}, {2, notReady}}, "0 1", "2", "1"},
		{"STS-22: start", []setChange{startingAt(5)}, 2, []at{{4, ready}, {5, ready}}, "5 6+", "4", "6"},
		{"STS-22: the start moved up", []setChange{startingAt(1)}, 1, []at{{0, ready}, {1, ready}}, "1", "0", ""},
		{"none wanted", nil, 0, []at{{0, ready}}, "", "0", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := newSet(test.replicas, test.set...)
			var members []*corev1.Pod
			for _, p := range test.pods {
				members = append(members, podAt(set, "r", p.ordinal, p.change))
			}
			noSlot := podAt(set, "r", 0, func(p *corev1.Pod) { p.Name = "web-01" })
			l := layOut(set, append(members, noSlot), start, never)
			first := ""
			if l.firstUnavailable != nil {
				first = fmt.Sprint(ordinalOf(l.firstUnavailable))
			}
			if slots(l.replicas) != test.filled || slots(l.condemned) != test.rest || first != test.first {
				t.Errorf("got %q, %q, first unavailable %q", slots(l.replicas), slots(l.condemned), first)
			}
			if len(l.all()) != len(l.replicas)+len(l.condemned) {
				t.Error("pods are lost")
			}
		})
	}
}

func never(*corev1.Pod) bool { return false }

// Pins STS-72.
func TestLayOutDoesNotCostWhatIsOnlyAskedFor(t *testing.T) {
	below := func(n int) func(*corev1.Pod) bool { return func(pod *corev1.Pod) bool { return ordinalOf(pod) < n } }
	for name, test := range map[string]struct {
		replicas int32
		set      []setChange
		pods     []int
		waits    func(*corev1.Pod) bool
		// missing is how many are created, besides those that wait, and last the topmost pod.
		missing, last int
		cut           bool
	}{
		"ordered":                           {math.MaxInt32, nil, nil, never, 1, 0, true},
		"ordered, after some":               {math.MaxInt32, nil, []int{0, 1}, never, 1, 2, true},
		"ordered, the first waits":          {math.MaxInt32, nil, nil, below(9), 1, 0, true},
		"ordered, the topmost is there":     {math.MaxInt32, nil, []int{math.MaxInt32 - 1}, never, 1, math.MaxInt32 - 1, true},
		"ordered, the last is missing":      {3, nil, []int{0, 1}, never, 1, 2, false},
		"ordered, all are there":            {3, nil, []int{0, 1, 2}, never, 0, 2, false},
		"parallel":                          {math.MaxInt32, []setChange{parallel}, nil, never, 500, 499, true},
		"parallel, some are there":          {math.MaxInt32, []setChange{parallel}, []int{7, 900}, never, 500, 900, true},
		"parallel, one too many":            {501, []setChange{parallel}, nil, never, 500, 499, true},
		"parallel, just enough":             {500, []setChange{parallel}, nil, never, 500, 499, false},
		"parallel, some wait":               {math.MaxInt32, []setChange{parallel}, nil, below(600), 1100, 1099, true},
		"parallel, later start":             {math.MaxInt32, []setChange{parallel, startingAt(5)}, []int{4}, never, 500, 504, true},
		"parallel, no names for the others": {9, []setChange{parallel, startingAt(math.MaxInt32 - 1)}, nil, never, 2, math.MaxInt32, false},
	} {
		t.Run(name, func(t *testing.T) {
			set := newSet(test.replicas, test.set...)
			var members []*corev1.Pod
			for _, n := range test.pods {
				members = append(members, podAt(set, "r", n))
			}
			l := layOut(set, members, start, test.waits)
			missing := 0
			for _, pod := range l.replicas {
				if !isCreated(pod) {
					missing++
				}
			}
			last := ordinalOf(l.replicas[len(l.replicas)-1])
			if missing != test.missing || last != test.last || l.cut != test.cut {
				t.Errorf("%d are missing, the last is %d, cut: %v", missing, last, l.cut)
			}
		})
	}
}

// Pins STS-22.
func TestStartsAtCurrent(t *testing.T) {
	current := func(n int32) setChange { return func(set *appsv1.StatefulSet) { set.Status.CurrentReplicas = n } }
	for _, test := range []struct {
		name string
		set  []setChange
		want string // of slots 0 to 3
	}{
		{"no partition", []setChange{current(2)}, "update update update update"},
		{"partition", []setChange{partition(2), current(4)}, "current current update update"},
		{"nil partition", []setChange{func(set *appsv1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = nil }}, "update update update update"},
		{"STS-49: no settings", []setChange{withoutRollingUpdate, current(3)}, "current current current update"},
		{"no settings, later start", []setChange{withoutRollingUpdate, startingAt(2), current(1)}, "current current current update"},
		{"partition, later start", []setChange{partition(1), startingAt(1)}, "current current update update"},
		{"OnDelete", []setChange{onDelete, current(4)}, "update update update update"},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := newSet(4, test.set...)
			var got []string
			for n := range 4 {
				got = append(got, map[bool]string{true: "current", false: "update"}[startsAtCurrent(set, n)])
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %v, want %s", got, test.want)
			}
		})
	}
}

// laidOut returns pods: u and c are at the update and current revision, U and C likewise but not
// ready, D is being deleted, F has failed, + is not created.
func laidOut(set *appsv1.StatefulSet, states string) []*corev1.Pod {
	var replicas []*corev1.Pod
	for i, state := range states {
		revision := map[bool]string{true: "update", false: "current"}[state == 'u' || state == 'U']
		change := map[rune]podChange{
			'u': func(*corev1.Pod) {}, 'c': func(*corev1.Pod) {}, 'U': notReady, 'C': notReady,
			'D': terminating, 'F': phase(corev1.PodFailed), '+': phase(""),
		}[state]
		replicas = append(replicas, podAt(set, revision, firstOrdinal(set)+i, change))
	}
	return replicas
}

// TestRolling lays out four pods, see laidOut.
// Pins STS-29 and STS-29a.
func TestRolling(t *testing.T) {
	for _, test := range []struct {
		pods      string
		partition int32
		// victim is the one without the gate, and victims those with maxUnavailable 1 to 3.
		victim  string
		victims [3]string
	}{
		{"cccc", 0, "3", [3]string{"3", "3 2", "3 2 1"}},
		{"cccu", 0, "2", [3]string{"2", "2 1", "2 1 0"}},
		{"uuuu", 0, "", [3]string{"", "", ""}},
		{"cccu", 3, "", [3]string{"", "", ""}},
		{"cccc", 2, "3", [3]string{"3", "3 2", "3 2"}},
		{"cccc", 9, "", [3]string{"", "", ""}},
		{"cccU", 0, "", [3]string{"", "2", "2 1"}},   // waits for the updated one
		{"cccD", 0, "", [3]string{"", "2", "2 1"}},   // waits for the deleted one
		{"cccC", 0, "3", [3]string{"3", "3", "3 2"}}, // a broken one is in nobody's way
		{"Cccu", 0, "2", [3]string{"0", "2", "2 1"}}, // the gate counts all of them
		{"ccc+", 0, "", [3]string{"", "2", "2 1"}},   // created in this reconcile
		{"cccF", 0, "", [3]string{"", "2", "2 1"}},   // deleted in this reconcile
		{"", 0, "", [3]string{"", "", ""}},
	} {
		t.Run(test.pods, func(t *testing.T) {
			set := newSet(int32(len(test.pods)), partition(test.partition))
			replicas := laidOut(set, test.pods)
			if got := slots(nextVictim(set, replicas, "update", start)); got != test.victim {
				t.Errorf("next victim %q, want %q", got, test.victim)
			}
			unavailable := unavailableOf(set, replicas, start)
			for i, want := range test.victims {
				if got := slots(victimsWithin(set, replicas, "update", i+1, unavailable)); got != want {
					t.Errorf("maxUnavailable %d: %q, want %q", i+1, got, want)
				}
			}
		})
	}
}

// TestRollingOverBrokenPods lays out pods as TestRolling does.
// Pins STS-85.
func TestRollingOverBrokenPods(t *testing.T) {
	for _, test := range []struct {
		pods string
		set  []setChange
		// victims are those with maxUnavailable 1 to 3.
		victims [3]string
	}{
		{"CCCC", nil, [3]string{"3", "3 2", "3 2 1"}},
		{"CCcc", nil, [3]string{"1", "1 0", "3"}},     // the last has room for an available one
		{"CCCu", nil, [3]string{"2", "2 1", "2 1 0"}}, // the first is updated
		{"CCCU", nil, [3]string{"", "2", "2 1"}},      // waits for the updated one
		{"CCCD", nil, [3]string{"", "2", "2 1"}},      // waits for the deleted one
		{"CCC+", nil, [3]string{"", "2", "2 1"}},      // waits for the one that is created
		{"CCCF", nil, [3]string{"", "2", "2 1"}},      // waits for the one that has finished
		{"UUCC", nil, [3]string{"", "", "3"}},         // as many as may be are updated and broken
		{"UUUC", nil, [3]string{"", "", ""}},
		{"CCCC", []setChange{partition(3)}, [3]string{"3", "3", "3"}},
		{"CCcu", []setChange{partition(2)}, [3]string{"", "", "2"}}, // the broken ones are to stay
		{"CCCC", []setChange{partition(1), startingAt(2)}, [3]string{"5", "5 4", "5 4 3"}},
		{"CCCC", []setChange{withoutRollingUpdate}, [3]string{"", "", ""}},
	} {
		t.Run(fmt.Sprint(test.pods, len(test.set)), func(t *testing.T) {
			set := newSet(int32(len(test.pods)), test.set...)
			replicas := laidOut(set, test.pods)
			unavailable := unavailableOf(set, replicas, start)
			for i, want := range test.victims {
				if got := slots(victimsWithin(set, replicas, "update", i+1, unavailable)); got != want {
					t.Errorf("maxUnavailable %d: %q, want %q", i+1, got, want)
				}
			}
		})
	}
}

// Pins STS-29a.
func TestMaxUnavailable(t *testing.T) {
	for text, want := range map[string]int{"": 1, "0": 1, "3": 3, "0%": 1, "39%": 3, "100%": 10} {
		set := newSet(10)
		if text != "" {
			n := intstr.Parse(text)
			set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = &n
		}
		if got, err := maxUnavailableOf(set); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	set := newSet(10)
	n := intstr.FromString("many")
	set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = &n
	if _, err := maxUnavailableOf(set); err == nil {
		t.Error("takes anything")
	}
	if got, err := maxUnavailableOf(newSet(10, withoutRollingUpdate)); err != nil || got != 1 {
		t.Errorf("no settings: %d, %v", got, err)
	}
}
