package daemonset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

func requireNode(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

func expression(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

func field(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

func TestEligibility(t *testing.T) {
	tolerate := func(op corev1.TolerationOperator, key, value string, effect corev1.TaintEffect) []corev1.Toleration {
		return []corev1.Toleration{{Operator: op, Key: key, Value: value, Effect: effect}}
	}
	for _, test := range []struct {
		name   string
		spec   corev1.PodSpec
		taints []corev1.Taint
		want   eligibility
	}{
		{"DS-21: anywhere", corev1.PodSpec{}, nil, runs},
		{"DS-20: its node", corev1.PodSpec{NodeName: "n"}, nil, runs},
		{"DS-20: another node", corev1.PodSpec{NodeName: "m"}, nil, never},
		{"DS-20: selected", corev1.PodSpec{NodeSelector: map[string]string{"zone": "a"}}, nil, runs},
		{"DS-20: not selected", corev1.PodSpec{NodeSelector: map[string]string{"zone": "b"}}, nil, never},
		{"DS-20: affinity", corev1.PodSpec{Affinity: requireNode(expression("zone", corev1.NodeSelectorOpIn, "b"), expression("zone", corev1.NodeSelectorOpIn, "a"))}, nil, runs},
		{"DS-20: no affinity", corev1.PodSpec{Affinity: requireNode(expression("zone", corev1.NodeSelectorOpNotIn, "a"))}, nil, never},
		{"DS-19: affinity by field", corev1.PodSpec{Affinity: requireNode(field("metadata.name", corev1.NodeSelectorOpIn, "n"))}, nil, runs},
		{"DS-20: invalid affinity", corev1.PodSpec{Affinity: requireNode(expression("zone", "Bad", "a"))}, nil, never},
		{"DS-20: affinity without terms", corev1.PodSpec{Affinity: requireNode()}, nil, never},
		{"DS-20: selected but no affinity", corev1.PodSpec{NodeSelector: map[string]string{"zone": "a"}, Affinity: requireNode(expression("zone", corev1.NodeSelectorOpDoesNotExist))}, nil, never},

		{"DS-21, DS-49: NoSchedule", corev1.PodSpec{}, []corev1.Taint{taint("NoSchedule")}, remains},
		{"DS-21, DS-49: NoExecute", corev1.PodSpec{}, []corev1.Taint{taint("NoExecute")}, never},
		{"DS-21: both", corev1.PodSpec{}, []corev1.Taint{taint("NoSchedule"), taint("NoExecute")}, never},
		{"DS-21: PreferNoSchedule", corev1.PodSpec{}, []corev1.Taint{taint("PreferNoSchedule")}, runs},
		{"DS-21: NoSchedule tolerated", corev1.PodSpec{Tolerations: tolerate("Exists", "taint", "", "NoSchedule")}, []corev1.Taint{taint("NoSchedule")}, runs},
		{"DS-21: NoExecute tolerated", corev1.PodSpec{Tolerations: tolerate("Exists", "taint", "", "")}, []corev1.Taint{taint("NoExecute")}, runs},
		{"DS-21: only NoExecute tolerated", corev1.PodSpec{Tolerations: tolerate("Exists", "taint", "", "NoExecute")}, []corev1.Taint{taint("NoSchedule"), taint("NoExecute")}, remains},
		{"comparison without the gate", corev1.PodSpec{Tolerations: tolerate("Gt", "level", "3", "NoSchedule")}, []corev1.Taint{{Key: "level", Value: "5", Effect: "NoSchedule"}}, remains},

		{"DS-19, DS-22: not ready", corev1.PodSpec{}, []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: "NoExecute"}}, runs},
		{"DS-22: not ready, not to be scheduled to", corev1.PodSpec{}, []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: "NoSchedule"}}, remains},
		{"DS-22: unreachable", corev1.PodSpec{}, []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: "NoExecute"}}, runs},
		{"DS-22: cordoned", corev1.PodSpec{}, []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: "NoSchedule"}}, runs},
		{"DS-22: network", corev1.PodSpec{}, []corev1.Taint{{Key: corev1.TaintNodeNetworkUnavailable, Effect: "NoSchedule"}}, remains},
		{"DS-22: network of the host", corev1.PodSpec{HostNetwork: true}, []corev1.Taint{{Key: corev1.TaintNodeNetworkUnavailable, Effect: "NoSchedule"}}, runs},
	} {
		t.Run(test.name, func(t *testing.T) {
			node := newNode("n", test.taints...)
			node.Labels["zone"] = "a"
			// Nothing of this counts.
			node.Spec.Unschedulable = true
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
			if got := newPlacement(&test.spec, false).on(klog.Background(), node); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// Pins DS-3.
func TestComparisonOperatorsNeedTheGate(t *testing.T) {
	spec := corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "level", Operator: "Gt", Value: "3", Effect: "NoSchedule"}}}
	for level, want := range map[string]eligibility{"5": runs, "2": remains} {
		node := newNode("n", corev1.Taint{Key: "level", Value: level, Effect: "NoSchedule"})
		if got := newPlacement(&spec, true).on(klog.Background(), node); got != want {
			t.Errorf("level %s: %+v, want %+v", level, got, want)
		}
	}
}

// Pins DS-22.
func TestDaemonTolerations(t *testing.T) {
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: "Exists", Effect: effect}
	}
	limited := exists("node.kubernetes.io/unreachable", "NoExecute")
	limited.TolerationSeconds = ptr.To[int64](300)
	equal := corev1.Toleration{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute", TolerationSeconds: ptr.To[int64](5)}
	spec := &corev1.PodSpec{HostNetwork: true, Tolerations: []corev1.Toleration{limited, equal}}
	want := []corev1.Toleration{
		exists("node.kubernetes.io/unreachable", "NoExecute"), // the time limit is gone
		equal, // another operator is another toleration
		exists("node.kubernetes.io/not-ready", "NoExecute"),
		exists("node.kubernetes.io/disk-pressure", "NoSchedule"),
		exists("node.kubernetes.io/memory-pressure", "NoSchedule"),
		exists("node.kubernetes.io/pid-pressure", "NoSchedule"),
		exists("node.kubernetes.io/unschedulable", "NoSchedule"),
		exists("node.kubernetes.io/network-unavailable", "NoSchedule"),
	}
	if diff := cmp.Diff(want, daemonTolerations(spec)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]corev1.Toleration{limited, equal}, spec.Tolerations); diff != "" {
		t.Errorf("the template was changed: %s", diff)
	}
	spec.HostNetwork = false
	if diff := cmp.Diff(want[:7], daemonTolerations(spec)); diff != "" {
		t.Errorf("without the network of the host: %s", diff)
	}
}
