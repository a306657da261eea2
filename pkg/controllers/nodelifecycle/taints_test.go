package nodelifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const foreign = "example.com/foreign"

func evicting(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
}

// tainted gives a node taints.
func tainted(taints ...corev1.Taint) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taints...) }
}

// has gives a node a condition in place of the one of its type.
func has(is corev1.NodeConditionType, status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		lacks(is)(n)
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: is, Status: status, LastHeartbeatTime: metav1.NewTime(at), LastTransitionTime: metav1.NewTime(at),
		})
	}
}

func lacks(is corev1.NodeConditionType) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == is })
	}
}

func ready(status corev1.ConditionStatus) func(*corev1.Node) { return has(corev1.NodeReady, status) }

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

// names prints taints without the prefix of most.
func names(taints []corev1.Taint) string {
	var all []string
	for _, t := range taints {
		all = append(all, fmt.Sprintf("%s:%s", strings.TrimPrefix(t.Key, "node.kubernetes.io/"), t.Effect))
	}
	return strings.Join(all, " ")
}

func TestChangeOfTaints(t *testing.T) {
	const (
		yes, no, unknown = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
		notReady         = corev1.TaintNodeNotReady
		unreachable      = corev1.TaintNodeUnreachable
	)
	for name, tc := range map[string]struct {
		node        *corev1.Node
		what        eviction
		add, remove string
	}{
		"NLC-27: ready":                    {node: node("n")},
		"NLC-27: not ready":                {node: node("n", ready(no)), add: "not-ready:NoSchedule"},
		"NLC-27: unknown":                  {node: node("n", ready(unknown)), add: "unreachable:NoSchedule"},
		"NLC-27: pressure of memory":       {node: node("n", has(corev1.NodeMemoryPressure, yes)), add: "memory-pressure:NoSchedule"},
		"NLC-27: pressure of disk":         {node: node("n", has(corev1.NodeDiskPressure, yes)), add: "disk-pressure:NoSchedule"},
		"NLC-27: pressure of PIDs":         {node: node("n", has(corev1.NodePIDPressure, yes)), add: "pid-pressure:NoSchedule"},
		"NLC-27: no network":               {node: node("n", has(corev1.NodeNetworkUnavailable, yes)), add: "network-unavailable:NoSchedule"},
		"NLC-27: nobody knows of pressure": {node: node("n", has(corev1.NodeMemoryPressure, unknown))},
		"NLC-27: cordoned":                 {node: node("n", cordoned), add: "unschedulable:NoSchedule"},
		"NLC-27: several": {
			node: node("n", cordoned, ready(no), has(corev1.NodeDiskPressure, yes)),
			add:  "not-ready:NoSchedule disk-pressure:NoSchedule unschedulable:NoSchedule",
		},
		"NLC-27: the taint of admission goes, without a condition": {
			node: node("n", lacks(corev1.NodeReady), tainted(noSchedule(notReady))), remove: "not-ready:NoSchedule",
		},
		"NLC-28: it has them": {node: node("n", ready(no), cordoned, tainted(noSchedule(notReady), noSchedule(corev1.TaintNodeUnschedulable)))},
		"NLC-28: a value makes no difference": {
			node: node("n", ready(no), tainted(corev1.Taint{Key: notReady, Value: "x", Effect: corev1.TaintEffectNoSchedule})),
		},
		"NLC-28: one is replaced": {
			node: node("n", ready(unknown), tainted(noSchedule(notReady))), add: "unreachable:NoSchedule", remove: "not-ready:NoSchedule",
		},
		"NLC-28: uncordoned":                   {node: node("n", tainted(noSchedule(corev1.TaintNodeUnschedulable))), remove: "unschedulable:NoSchedule"},
		"NLC-28: those of others stay":         {node: node("n", tainted(noSchedule(foreign), evicting(foreign), evicting(corev1.TaintNodeOutOfService)))},
		"NLC-28: another effect is another":    {node: node("n", tainted(evicting(corev1.TaintNodeMemoryPressure)))},
		"NLC-52: not ready waits for its turn": {node: node("n", ready(no), tainted(noSchedule(notReady))), what: waiting},
		"NLC-52, NLC-58: it is the turn of one that is not ready": {
			node: node("n", ready(no), tainted(noSchedule(notReady))), what: granted, add: "not-ready:NoExecute",
		},
		"NLC-53, NLC-58: it is the turn of a silent one": {
			node: node("n", ready(unknown), tainted(noSchedule(unreachable))), what: granted, add: "unreachable:NoExecute",
		},
		"NLC-52: from unreachable to not ready at once": {
			node: node("n", ready(no), tainted(noSchedule(notReady), evicting(unreachable))),
			add:  "not-ready:NoExecute", remove: "unreachable:NoExecute",
		},
		"NLC-53: from not ready to unreachable at once": {
			node: node("n", ready(unknown), tainted(noSchedule(unreachable), evicting(notReady))),
			add:  "unreachable:NoExecute", remove: "not-ready:NoExecute",
		},
		"NLC-88: one that has it keeps it":  {node: node("n", ready(unknown), tainted(noSchedule(unreachable), evicting(unreachable))), what: granted},
		"NLC-54: ready":                     {node: node("n", tainted(evicting(unreachable), evicting(notReady))), remove: "unreachable:NoExecute not-ready:NoExecute"},
		"NLC-54: ready when it is its turn": {node: node("n"), what: granted},
		"NLC-39: without a condition it stays": {
			node: node("n", lacks(corev1.NodeReady), tainted(evicting(unreachable))), what: granted,
		},
		"NLC-64: all zones are down": {
			node: node("n", ready(unknown), tainted(noSchedule(unreachable), evicting(unreachable))), what: stripped, remove: "unreachable:NoExecute",
		},
		"NLC-64: all zones are down, without a condition": {
			node: node("n", lacks(corev1.NodeReady), tainted(evicting(notReady))), what: stripped, remove: "not-ready:NoExecute",
		},
		"NLC-48: all at once": {
			node: node("n", ready(unknown), tainted(noSchedule(notReady))), what: granted,
			add: "unreachable:NoSchedule unreachable:NoExecute", remove: "not-ready:NoSchedule",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := changeOf(tc.node, tc.what)
			if add, remove := names(got.add), names(got.remove); add != tc.add || remove != tc.remove {
				t.Errorf("adds %q and removes %q, want %q and %q", add, remove, tc.add, tc.remove)
			}
			if got.isEmpty() != (tc.add == "" && tc.remove == "") {
				t.Error("the change is empty, or not")
			}
		})
	}
}

// Pins NLC-48 and NLC-49.
func TestTaintsAreAppliedInOrder(t *testing.T) {
	now := at.Add(time.Minute)
	n := node("n", ready(corev1.ConditionUnknown), tainted(noSchedule(foreign), noSchedule(corev1.TaintNodeNotReady), evicting(foreign)))
	before := slices.Clone(n.Spec.Taints)
	got := changeOf(n, granted).applyTo(n.Spec.Taints, now)
	if names := names(got); names != "example.com/foreign:NoSchedule example.com/foreign:NoExecute unreachable:NoSchedule unreachable:NoExecute" {
		t.Errorf("taints are %s", names)
	}
	for _, taint := range got[2:] {
		if taint.TimeAdded == nil || !taint.TimeAdded.Time.Equal(now) || taint.Value != "" {
			t.Errorf("added %+v", taint)
		}
	}
	if !slices.Equal(n.Spec.Taints, before) {
		t.Error("the cached node was changed")
	}
}

func TestMissingLabels(t *testing.T) {
	for name, tc := range map[string]struct {
		labels map[string]string
		want   map[string]string
	}{
		"NLC-29: none":     {},
		"NLC-29: missing":  {map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}, map[string]string{"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "arm64"}},
		"NLC-29: another":  {map[string]string{"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"}, map[string]string{"beta.kubernetes.io/os": "linux"}},
		"NLC-29: equal":    {map[string]string{"kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "arm64"}, nil},
		"NLC-29: only old": {map[string]string{"beta.kubernetes.io/arch": "arm64"}, nil},
		"NLC-29: empty":    {map[string]string{"kubernetes.io/os": ""}, map[string]string{"beta.kubernetes.io/os": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			n := node("n")
			n.Labels = tc.labels
			if got := missingLabels(n); fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("missing %v, want %v", got, tc.want)
			}
		})
	}
}
