package nodelifecycle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestConditionsOfASilentNode(t *testing.T) {
	created, now := at.Add(-time.Hour), at.Add(time.Minute)
	const never, stopped = "NodeStatusNeverUpdated Kubelet never posted node status.", "NodeStatusUnknown Kubelet stopped posting node status."
	// A condition is printed as type=status reason message heartbeat transition.
	printed := func(is corev1.NodeConditionType, status, why string, heartbeat, transition time.Time) string {
		return fmt.Sprintf("%s=%s %s %s %s", is, status, why, heartbeat.Format(time.TimeOnly), transition.Format(time.TimeOnly))
	}
	for name, tc := range map[string]struct {
		node *corev1.Node
		want []string
	}{
		"NLC-45: it never had any": {
			node("n", lacks(corev1.NodeReady)),
			[]string{
				printed("Ready", "Unknown", never, created, now), printed("MemoryPressure", "Unknown", never, created, now),
				printed("DiskPressure", "Unknown", never, created, now), printed("PIDPressure", "Unknown", never, created, now),
			},
		},
		"NLC-45: it had some": {
			node("n", has(corev1.NodeDiskPressure, corev1.ConditionFalse), has(corev1.NodeNetworkUnavailable, corev1.ConditionFalse)),
			[]string{
				printed("Ready", "Unknown", stopped, at, now), printed("DiskPressure", "Unknown", stopped, at, now),
				printed("NetworkUnavailable", "False", " ", at, at),
				printed("MemoryPressure", "Unknown", never, created, now), printed("PIDPressure", "Unknown", never, created, now),
			},
		},
		"NLC-45: what is unknown stays": {
			node("n", has(corev1.NodeMemoryPressure, corev1.ConditionUnknown), has(corev1.NodeDiskPressure, corev1.ConditionUnknown), has(corev1.NodePIDPressure, corev1.ConditionUnknown)),
			[]string{
				printed("Ready", "Unknown", stopped, at, now), printed("MemoryPressure", "Unknown", " ", at, at),
				printed("DiskPressure", "Unknown", " ", at, at), printed("PIDPressure", "Unknown", " ", at, at),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.node.CreationTimestamp = metav1.NewTime(created)
			before := tc.node.DeepCopy()
			var got []string
			for _, c := range unknownConditions(tc.node, now) {
				got = append(got, printed(c.Type, string(c.Status), c.Reason+" "+c.Message, c.LastHeartbeatTime.Time, c.LastTransitionTime.Time))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("conditions are\n%q, want\n%q", got, tc.want)
			}
			if fmt.Sprint(before.Status) != fmt.Sprint(tc.node.Status) {
				t.Error("the cached node was changed")
			}
		})
	}
}
