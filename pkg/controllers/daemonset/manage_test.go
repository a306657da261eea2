package daemonset

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/test/controllertest"
)

type decision struct {
	create, delete []string
}

func decided(p plan) decision {
	return decision{create: append([]string{}, p.create...), delete: controllertest.Names(p.delete)}
}

func none(names ...string) []string { return append([]string{}, names...) }

// Pins DS-24, DS-25, DS-25a, DS-25b and DS-26.
func TestManage(t *testing.T) {
	failed, succeeded := phase(corev1.PodFailed), phase(corev1.PodSucceeded)
	finalized := func(p *corev1.Pod) { succeeded(p); deleting(p) }
	for _, test := range []struct {
		name   string
		set    *appsv1.DaemonSet
		sites  map[string]eligibility
		pods   []*corev1.Pod
		want   decision
		events []string
	}{
		{
			"missing pods are created", newSet(), sitesOf(3), []*corev1.Pod{newPod("a", "n1")},
			decision{none("n0", "n2"), none()}, nil,
		},
		{
			"nodes that should not run one get none", newSet(), map[string]eligibility{"n0": remains, "n1": never}, nil,
			decision{none(), none()}, nil,
		},
		{
			"a pinned pod holds its node", newSet(), sitesOf(1), []*corev1.Pod{newPod("a", "n0", pinned)},
			decision{none(), none()}, nil,
		},
		{
			"a pod without a target counts nowhere", newSet(), sitesOf(1), []*corev1.Pod{newPod("a", "")},
			decision{none("n0"), none()}, nil,
		},
		{
			"a pod may remain", newSet(), map[string]eligibility{"n0": remains}, []*corev1.Pod{newPod("a", "n0")},
			decision{none(), none()}, nil,
		},
		{
			"all pods that may not remain are deleted", newSet(), map[string]eligibility{"n0": never},
			[]*corev1.Pod{newPod("a", "n0"), newPod("b", "n0", failed), newPod("gone", "n0", deleting)},
			decision{none(), none("a", "b")}, nil,
		},
		{
			"DS-28: of several the oldest stays", newSet(), sitesOf(1),
			[]*corev1.Pod{newPod("young", "n0"), newPod("oldest", "n0", age(2)), newPod("older", "n0", age(1))},
			decision{none(), none("older", "young")}, nil,
		},
		{
			"DS-28: of equal age the first by name stays", newSet(), sitesOf(1), []*corev1.Pod{newPod("b", "n0"), newPod("a", "n0")},
			decision{none(), none("b")}, nil,
		},
		{
			"DS-28: scheduled goes before age", newSet(), sitesOf(1), []*corev1.Pod{newPod("older", "n0", age(1), pinned), newPod("bound", "n0")},
			decision{none(), none("older")}, nil,
		},
		{
			"deleting pods hold the node", newSet(), sitesOf(1), []*corev1.Pod{newPod("a", "n0", deleting)},
			decision{none(), none()}, nil,
		},
		{
			"deleting pods that have ended do not hold the node", newSet(), sitesOf(1), []*corev1.Pod{newPod("a", "n0", finalized)},
			decision{none("n0"), none()}, nil,
		},
		{
			"failed pods are deleted, and replaced later", newSet(), sitesOf(1), []*corev1.Pod{newPod("a", "n0", failed)},
			decision{none(), none("a")}, []string{"Warning FailedDaemonPod Found failed daemon pod ns/a on node n0, will try to kill it"},
		},
		{
			"succeeded pods are deleted", newSet(), map[string]eligibility{"n0": remains}, []*corev1.Pod{newPod("a", "n0", succeeded)},
			decision{none(), none("a")}, []string{"Normal SucceededDaemonPod Found succeeded daemon pod ns/a on node n0, will try to delete it"},
		},
		{
			"a running pod stays beside a failed one", newSet(), sitesOf(1),
			[]*corev1.Pod{newPod("a", "n0", failed, age(5)), newPod("b", "n0")},
			decision{none(), none("a")}, []string{"Warning FailedDaemonPod Found failed daemon pod ns/a on node n0, will try to kill it"},
		},
		{
			"an unscheduled pod of a node that is gone is deleted", newSet(), nil,
			[]*corev1.Pod{newPod("lost", "gone", pinned), newPod("bound", "gone"), newPod("leaving", "gone", pinned, deleting)},
			decision{none(), none("lost")}, nil,
		},

		{
			"DS-50: surge: a deleting pod does not hold the node, although nothing is updated", newSet(surging(1)), sitesOf(1), []*corev1.Pod{newPod("a", "n0", deleting)},
			decision{none("n0"), none()}, nil,
		},
		{
			"surge: a failed pod does not hold the node", newSet(surging(1)), sitesOf(1), []*corev1.Pod{newPod("a", "n0", failed)},
			decision{none("n0"), none("a")}, []string{"Warning FailedDaemonPod Found failed daemon pod ns/a on node n0, will try to kill it"},
		},
		{
			"surge: nothing is created where none should run", newSet(surging(1)), map[string]eligibility{"n0": remains},
			[]*corev1.Pod{newPod("a", "n0", deleting)},
			decision{none(), none()}, nil,
		},
		{
			"surge: an old and a new pod stay", newSet(surging(1)), sitesOf(1),
			[]*corev1.Pod{newPod("old", "n0", old), newPod("new", "n0", unready)},
			decision{none(), none()}, nil,
		},
		{
			"surge: the oldest of each", newSet(surging(1)), sitesOf(1),
			[]*corev1.Pod{newPod("old1", "n0", old, age(4)), newPod("old2", "n0", old, age(3)), newPod("new1", "n0", age(2), unready), newPod("new2", "n0", age(1))},
			decision{none(), none("new2", "old2")}, nil,
		},
		{
			"surge: an old pod that is not ready goes", newSet(surging(1)), sitesOf(1),
			[]*corev1.Pod{newPod("old", "n0", old, unready), newPod("new", "n0", unready)},
			decision{none(), none("old")}, nil,
		},
		{
			"surge: an old pod goes when the new one is available", newSet(surging(1)), sitesOf(1),
			[]*corev1.Pod{newPod("old", "n0", old), newPod("new", "n0")},
			decision{none(), none("old")}, nil,
		},
		{
			"surge: ready is not enough", newSet(surging(1), minReady(5)), sitesOf(1),
			[]*corev1.Pod{newPod("old", "n0", old), newPod("new", "n0")},
			decision{none(), none()}, nil,
		},
		{
			"surge: two old pods", newSet(surging(1)), sitesOf(1),
			[]*corev1.Pod{newPod("old1", "n0", old, age(1)), newPod("old2", "n0", old)},
			decision{none(), none("old2")}, nil,
		},
		{
			"surge: the template generation does not count", newSet(surging(1), templateGenerationOf("7")), sitesOf(1),
			[]*corev1.Pod{newPod("old1", "n0", old, age(1), generation("7")), newPod("old2", "n0", old, generation("7"))},
			decision{none(), none("old2")}, nil,
		},
		{
			"DS-48: surge: an old pod of the template generation stays beside a new pod", newSet(surging(1), templateGenerationOf("7")), sitesOf(1),
			[]*corev1.Pod{newPod("old", "n0", old, age(1), generation("7")), newPod("new", "n0", unready)},
			decision{none(), none()}, nil,
		},
		{
			"one percent allows a surge", newSet(strategy(intstr.FromInt32(0), intstr.FromString("1%"))), sitesOf(1),
			[]*corev1.Pod{newPod("a", "n0", deleting)},
			decision{none("n0"), none()}, nil,
		},
		{
			"OnDelete never surges", newSet(surging(1), func(ds *appsv1.DaemonSet) { ds.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType }), sitesOf(1),
			[]*corev1.Pod{newPod("a", "n0", deleting)},
			decision{none(), none()}, nil,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := observationOf(test.set, test.sites, test.pods...).manage(newFailures(clocktesting.NewFakeClock(start)))
			if diff := cmp.Diff(test.want, decided(p), cmp.AllowUnexported(decision{})); diff != "" {
				t.Error(diff)
			}
			var events []string
			for _, e := range p.events {
				events = append(events, e.Type+" "+e.Reason+" "+e.Message)
			}
			if !slices.Equal(events, test.events) {
				t.Errorf("events %q, want %q", events, test.events)
			}
		})
	}
}

func templateGenerationOf(value string) func(*appsv1.DaemonSet) {
	return func(ds *appsv1.DaemonSet) {
		metav1.SetMetaDataAnnotation(&ds.ObjectMeta, appsv1.DeprecatedTemplateGeneration, value)
	}
}

func generation(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[generationLabel] = value }
}

// Pins DS-25 and DS-43.
func TestFailedPodsAreReplacedEverMoreSlowly(t *testing.T) {
	clock := clocktesting.NewFakeClock(start)
	f := newFailures(clock)
	ds := newSet()
	kill := func() (killed int, retry time.Duration) {
		p := observationOf(ds, sitesOf(1), newPod("a", "n0", phase(corev1.PodFailed))).manage(f)
		return len(p.delete), p.retry
	}
	for i := range 12 {
		if killed, retry := kill(); killed != 1 || retry != 0 {
			t.Fatalf("failure %d: killed %d, retry %v", i, killed, retry)
		}
		want := min(time.Second<<i, 15*time.Minute)
		if killed, retry := kill(); killed != 0 || retry != want {
			t.Fatalf("failure %d: within the backoff killed %d, retry %v, want %v", i, killed, retry, want)
		}
		clock.Step(want)
	}
	// Another node and another generation have a backoff of their own.
	if wait := f.wait(ds, "n1"); wait != 0 {
		t.Errorf("another node waits %v", wait)
	}
	next := newSet(func(ds *appsv1.DaemonSet) { ds.Status.ObservedGeneration = 2 })
	if wait := f.wait(next, "n0"); wait != 0 {
		t.Errorf("another generation waits %v", wait)
	}
	if killed, _ := kill(); killed != 1 {
		t.Fatal("not killed")
	}
	clock.Step(2*maxBackoff + time.Second)
	if killed, _ := kill(); killed != 1 {
		t.Fatal("not killed after a long time")
	}
	if _, retry := kill(); retry != time.Second {
		t.Errorf("after a long time the backoff is %v", retry)
	}
}

// Otherwise pods that fail at once, for example because the kubelet refuses them, would be created without end.
// Pins DS-66.
func TestASurgingSetCreatesNoPodBesideOneThatWaits(t *testing.T) {
	clock := clocktesting.NewFakeClock(start)
	f := newFailures(clock)
	failed := phase(corev1.PodFailed)
	for _, step := range []struct {
		name string
		pods []*corev1.Pod
		want decision
	}{
		{"the first failure", []*corev1.Pod{newPod("a", "n0", failed)}, decision{none("n0"), none("a")}},
		{"its successor fails and waits", []*corev1.Pod{newPod("b", "n0", failed)}, decision{none(), none()}},
		{
			"another one is being deleted",
			[]*corev1.Pod{newPod("b", "n0", failed), newPod("c", "n0", deleting)}, decision{none(), none()},
		},
		{
			"another one succeeded",
			[]*corev1.Pod{newPod("b", "n0", failed), newPod("c", "n0", phase(corev1.PodSucceeded))}, decision{none(), none("c")},
		},
		{"the wait is over", []*corev1.Pod{newPod("b", "n0", failed)}, decision{none("n0"), none("b")}},
	} {
		if step.name == "the wait is over" {
			clock.Step(firstBackoff)
		}
		p := observationOf(newSet(surging(1)), sitesOf(1), step.pods...).manage(f)
		if diff := cmp.Diff(step.want, decided(p), cmp.AllowUnexported(decision{})); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
	}
}

func TestTheEarliestRetryCounts(t *testing.T) {
	f := newFailures(clocktesting.NewFakeClock(start))
	ds := newSet()
	for range 3 {
		f.backoff.Next("set/0/n0", start)
	}
	f.backoff.Next("set/0/n1", start)
	failed := phase(corev1.PodFailed)
	p := observationOf(ds, sitesOf(2), newPod("a", "n0", failed), newPod("b", "n1", failed)).manage(f)
	if p.retry != time.Second || !p.empty() {
		t.Errorf("retry %v, delete %v", p.retry, controllertest.Names(p.delete))
	}
}

// Pins DS-58.
func TestWhatIsDeletedFirstFollowsFromWhatIsObserved(t *testing.T) {
	const n = 9
	f := newFailures(clocktesting.NewFakeClock(start))
	manage := func(o *observation) (plan, error) { return o.manage(f), nil }
	inOrder := func(all []*corev1.Pod) (names []string) {
		for _, pod := range all {
			names = append(names, pod.Name)
		}
		return names
	}
	for _, test := range []struct {
		name   string
		set    *appsv1.DaemonSet
		on     eligibility
		pod    func(*corev1.Pod)
		decide func(o *observation) (plan, error)
	}{
		{"pods that may not remain", newSet(), never, unready, manage},
		{"pods that have ended, and their events", newSet(), runs, phase(corev1.PodFailed), manage},
		{"old pods that are not available", newSet(), runs, controllertest.All(old, unready), (*observation).rollingUpdate},
		{"old pods of a surging set that need not run", newSet(surging(1)), never, controllertest.All(old, unready), (*observation).rollingUpdate},
	} {
		var claimed []*corev1.Pod
		var nodes []*corev1.Node
		var want []string
		for i := range n {
			name := fmt.Sprint("n", i)
			claimed, want = append(claimed, newPod(name, name, test.pod)), append(want, name)
			nodes = append([]*corev1.Node{newNode(name)}, nodes...)
		}
		o := newObservation(test.set, "new", start, claimed)
		o.place(nodes, func(*corev1.Node) eligibility { return test.on })
		p, err := test.decide(o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, inOrder(p.delete)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
		var messages []string
		for _, event := range p.events {
			messages = append(messages, event.Message)
		}
		if !slices.IsSorted(messages) {
			t.Errorf("%s: the events are %q", test.name, messages)
		}
	}

	var claimed []*corev1.Pod
	var want []string
	for i := range n {
		claimed, want = append(claimed, newPod(fmt.Sprint("p", i), fmt.Sprint("gone", n-i), pinned)), append(want, fmt.Sprint("p", n-1-i))
	}
	if diff := cmp.Diff(want, inOrder(observationOf(newSet(), nil, claimed...).manage(f).delete)); diff != "" {
		t.Errorf("pods of nodes that are gone: %s", diff)
	}
}
