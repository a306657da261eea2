package daemonset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	clienttesting "k8s.io/client-go/testing"
)

// Pins DS-29.
func TestPin(t *testing.T) {
	preferred := []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: expression("zone", corev1.NodeSelectorOpExists)}}
	spread := &corev1.PodAntiAffinity{}
	full := requireNode(expression("zone", corev1.NodeSelectorOpIn, "a"), field("metadata.name", corev1.NodeSelectorOpIn, "m"))
	full.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = preferred
	full.PodAntiAffinity = spread
	want := requireNode(field("metadata.name", corev1.NodeSelectorOpIn, "n"))
	for _, test := range []struct {
		name     string
		affinity *corev1.Affinity
		more     func(*corev1.Affinity)
	}{
		{"none", nil, func(*corev1.Affinity) {}},
		{"empty", &corev1.Affinity{}, func(*corev1.Affinity) {}},
		{"without a required one", &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}, func(*corev1.Affinity) {}},
		{"full", full, func(a *corev1.Affinity) {
			a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = preferred
			a.PodAntiAffinity = spread
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, want := test.affinity.DeepCopy(), want.DeepCopy()
			test.more(want)
			if diff := cmp.Diff(want, pin(test.affinity, "n")); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, test.affinity); diff != "" {
				t.Errorf("the argument was changed: %s", diff)
			}
		})
	}
}

// Pins DS-23.
func TestTarget(t *testing.T) {
	const in, notIn = corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn
	for _, test := range []struct {
		name string
		spec corev1.PodSpec
		want string
	}{
		{"nothing", corev1.PodSpec{}, ""},
		{"bound", corev1.PodSpec{NodeName: "n", Affinity: pin(nil, "m")}, "n"},
		{"pinned", corev1.PodSpec{Affinity: pin(nil, "m")}, "m"},
		{"only preferred", corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}, ""},
		{"only other affinity", corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}}, ""},
		{"by label", corev1.PodSpec{Affinity: requireNode(expression("metadata.name", in, "n"))}, ""},
		{"by another field", corev1.PodSpec{Affinity: requireNode(field("metadata.uid", in, "n"))}, ""},
		{"not there", corev1.PodSpec{Affinity: requireNode(field("metadata.name", notIn, "n"))}, ""},
		{"two names", corev1.PodSpec{Affinity: requireNode(field("metadata.name", in, "n", "m"))}, ""},
		{"two names first", corev1.PodSpec{Affinity: requireNode(field("metadata.name", in, "n", "m"), field("metadata.name", in, "n"))}, ""},
		{"in a later term", corev1.PodSpec{Affinity: requireNode(expression("zone", in, "a"), field("metadata.name", notIn, "m"), field("metadata.name", in, "n"))}, "n"},
	} {
		if got := targetOf(&corev1.Pod{Spec: test.spec}); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// An admission webhook replaces the affinity of each new pod, and the scheduler finds no node for it. Pins DS-73.
func TestPodsForAnyNodeAreNotMadeWithoutEnd(t *testing.T) {
	for name, ds := range map[string]*appsv1.DaemonSet{"default": newSet(), "surging": newSet(surging(2))} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, true, ds, newNode("n0"), newNode("n1"), newNode("n2"))
			h.Intercept("create pods", func(action clienttesting.Action) error {
				action.(clienttesting.CreateAction).GetObject().(*corev1.Pod).Spec.Affinity = nil
				return nil
			})
			for range 5 {
				h.reconcile(t)
			}
			if n := len(h.pods(t)); n != 3 {
				t.Errorf("there are %d pods for 3 nodes", n)
			}
			events := h.RecordedEvents()
			if last := events[len(events)-1]; last != "Warning FailedPlacement 3 daemon pods may be scheduled to any node, "+
				"so as many fewer are created: an admission webhook may change their node affinity" {
				t.Errorf("the last event is %q", last)
			}
			first := h.pods(t)[0]
			first.Spec.NodeName = "n1"
			h.Store(t, first)
			h.reconcile(t)
			if n := len(h.pods(t)); n != 3 {
				t.Errorf("there are %d pods when one was scheduled", n)
			}
			h.change(t, image("agent:2"))
			h.reconcile(t)
			if n := len(h.pods(t)); n != 5 {
				t.Errorf("there are %d pods, want one of the new template on each node that has none", n)
			}
		})
	}
}
