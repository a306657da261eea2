package daemonset

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// oldPods are n available pods of the old template on n0, n1, …
func oldPods(n int, changes ...func(*corev1.Pod)) []*corev1.Pod {
	var all []*corev1.Pod
	for i := range n {
		all = append(all, newPod(fmt.Sprint("p", i), fmt.Sprint("n", i), append([]func(*corev1.Pod){old}, changes...)...))
	}
	return all
}

func with(all []*corev1.Pod, more ...*corev1.Pod) []*corev1.Pod { return append(all, more...) }

// Pins DS-31.
func TestReplace(t *testing.T) {
	num, percent := intstr.FromInt32, intstr.FromString
	unavailable := func(v intstr.IntOrString) *appsv1.DaemonSet { return newSet(strategy(v, num(0))) }
	for _, test := range []struct {
		name  string
		set   *appsv1.DaemonSet
		sites map[string]eligibility
		pods  []*corev1.Pod
		want  []string
	}{
		{"one at a time", unavailable(num(1)), sitesOf(3), oldPods(3), none("p0")},
		{"two at a time", unavailable(num(2)), sitesOf(3), oldPods(3), none("p0", "p1")},
		{"more than there are", unavailable(num(9)), sitesOf(3), oldPods(3), none("p0", "p1", "p2")},
		{"DS-30: a percentage is rounded up", unavailable(percent("34%")), sitesOf(3), oldPods(3), none("p0", "p1")},
		{"the percentage is of the nodes that should run a pod", unavailable(percent("50%")),
			map[string]eligibility{"n0": remains, "n1": remains, "n2": runs, "n3": runs}, oldPods(4), none("p0")},
		{"DS-30: zero means one", unavailable(num(0)), sitesOf(3), oldPods(3), none("p0")},
		{"DS-30: zero stays zero if none should run", unavailable(num(0)), map[string]eligibility{"n0": remains}, oldPods(1), none()},
		{"a strategy without parameters", newSet(func(ds *appsv1.DaemonSet) { ds.Spec.UpdateStrategy.RollingUpdate = nil }), sitesOf(3), oldPods(3), none("p0")},
		{"all are updated", unavailable(num(1)), sitesOf(2), []*corev1.Pod{newPod("a", "n0"), newPod("b", "n1")}, none()},

		{"unavailable old pods go always", unavailable(num(1)), sitesOf(3), oldPods(3, unready), none("p0", "p1", "p2")},
		{"unavailable old pods use up the limit", unavailable(num(1)), sitesOf(3), with(oldPods(2), newPod("broken", "n2", old, unready)), none("broken")},
		{"unavailable new pods use up the limit", unavailable(num(1)), sitesOf(3), with(oldPods(2), newPod("x", "n2", unready)), none()},
		{"nodes without a pod use up the limit", unavailable(num(1)), sitesOf(3), oldPods(2), none()},
		{"pods being deleted use up the limit", unavailable(num(1)), sitesOf(3), with(oldPods(2), newPod("x", "n2", deleting)), none()},
		{"nodes that should run no pod do not use up the limit", unavailable(num(1)), map[string]eligibility{"n0": runs, "n1": never}, oldPods(1), none("p0")},
		{"a node with an old and a new pod uses up the limit", unavailable(num(1)), sitesOf(2), with(oldPods(2), newPod("x", "n1")), none()},
		{"a node with two new pods uses up the limit", unavailable(num(1)), sitesOf(2), with(oldPods(1), newPod("x", "n1"), newPod("y", "n1")), none()},
		{"a node with two old pods uses up the limit", unavailable(num(1)), sitesOf(2), with(oldPods(2), newPod("x", "n1", old)), none()},
		{"a limit of two leaves one", unavailable(num(2)), sitesOf(3), with(oldPods(2), newPod("x", "n2", unready)), none("p0")},
		{"a pod on a node that is gone counts", unavailable(num(1)), sitesOf(2), with(oldPods(2), newPod("x", "gone", unready)), none()},

		{"DS-30, DS-48: same template generation", newSet(templateGenerationOf("3")), sitesOf(2), oldPods(2, generation("3")), none()},
		{"DS-30: another template generation", newSet(templateGenerationOf("3")), sitesOf(2), oldPods(2, generation("2")), none("p0")},
		{"no template generation", newSet(templateGenerationOf("none")), sitesOf(2), oldPods(2, generation("none")), none("p0")},
		{"ready, not yet available", newSet(minReady(9)), sitesOf(2), with(oldPods(1, age(60)), newPod("x", "n1")), none("p0")},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := observationOf(test.set, test.sites, test.pods...).rollingUpdate()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decision{none(), test.want}, decided(p), cmp.AllowUnexported(decision{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Pins DS-32.
func TestSurge(t *testing.T) {
	num, percent := intstr.FromInt32, intstr.FromString
	for _, test := range []struct {
		name  string
		set   *appsv1.DaemonSet
		sites map[string]eligibility
		pods  []*corev1.Pod
		want  decision
	}{
		{"one at a time", newSet(surging(1)), sitesOf(3), oldPods(3), decision{none("n0"), none()}},
		{"DS-30: a percentage is rounded up", newSet(strategy(num(0), percent("34%"))), sitesOf(3), oldPods(3), decision{none("n0", "n1"), none()}},
		{"new pods on their way use up the limit", newSet(surging(1)), sitesOf(3), with(oldPods(3), newPod("x", "n0", unready)), decision{none(), none()}},
		{"nodes with too many pods use up the limit", newSet(surging(1)), sitesOf(2), with(oldPods(2), newPod("x", "n0", old)), decision{none(), none()}},
		{"an available new pod replaces the old one", newSet(surging(1)), sitesOf(3), with(oldPods(3), newPod("x", "n0")), decision{none("n1"), none("p0")}},
		{"ready is not enough", newSet(surging(1), minReady(5)), sitesOf(1), with(oldPods(1), newPod("x", "n0")), decision{none(), none()}},
		{"unavailable old pods get company without limit", newSet(surging(1)), sitesOf(3), oldPods(3, unready), decision{none("n0", "n1", "n2"), none()}},
		{"unavailable old pods do not use up the limit", newSet(surging(1)), sitesOf(2), with(oldPods(1), newPod("x", "n1", old, unready)), decision{none("n1", "n0"), none()}},
		{"an unavailable old pod that need not run is deleted", newSet(surging(1)), map[string]eligibility{"n0": remains}, oldPods(1, unready), decision{none(), none("p0")}},
		{"nothing is done for new pods", newSet(surging(1)), sitesOf(2), []*corev1.Pod{newPod("a", "n0"), newPod("b", "n1", unready)}, decision{none(), none()}},
		{"nothing is done for nodes without pods", newSet(surging(1)), sitesOf(1), nil, decision{none(), none()}},
		{"an available pod that need not run goes when there are enough", newSet(surging(1)),
			map[string]eligibility{"n0": remains, "n1": runs}, with(oldPods(1), newPod("x", "n1")), decision{none(), none("p0")}},
		{"an available pod that need not run stays while there are too few", newSet(surging(1)),
			map[string]eligibility{"n0": remains, "n1": runs}, with(oldPods(1), newPod("x", "n1", unready)), decision{none(), none()}},
		{"as many pods go as there are too many", newSet(surging(1)),
			map[string]eligibility{"n0": remains, "n1": remains, "n2": runs}, oldPods(2), decision{none(), none("p0")}},
		{"an old one counts as available beside a new one", newSet(surging(1)),
			map[string]eligibility{"n0": remains, "n1": runs}, with(oldPods(2), newPod("x", "n1", unready)), decision{none(), none("p0")}},
		{"a new pod on a node that is gone", newSet(surging(1)), sitesOf(1), with(oldPods(1), newPod("x", "gone")), decision{none("n0"), none()}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := observationOf(test.set, test.sites, test.pods...).rollingUpdate()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, decided(p), cmp.AllowUnexported(decision{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRollingUpdateErrors(t *testing.T) {
	bad := intstr.FromString("many")
	for _, test := range []struct {
		name string
		set  *appsv1.DaemonSet
		pods []*corev1.Pod
		want string
	}{
		{"maxSurge", newSet(strategy(intstr.FromInt32(1), bad)), nil, "maxSurge"},
		{"maxUnavailable", newSet(strategy(bad, intstr.FromInt32(0))), nil, "maxUnavailable"},
		{"DS-32: old pod of a node that is gone", newSet(surging(1)), []*corev1.Pod{newPod("a", "gone", old)}, "gone"},
	} {
		if _, err := observationOf(test.set, sitesOf(1), test.pods...).rollingUpdate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if observationOf(newSet(strategy(intstr.FromInt32(1), bad)), nil).surges() {
		t.Error("an invalid maxSurge allows a surge")
	}
}
