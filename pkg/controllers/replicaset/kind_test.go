package replicaset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/workloads/replicas"
)

func fullStatus() appsv1.ReplicaSetStatus {
	return appsv1.ReplicaSetStatus{
		Replicas: 1, FullyLabeledReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 4,
		TerminatingReplicas: ptr.To[int32](5), ObservedGeneration: 6,
		Conditions: []appsv1.ReplicaSetCondition{
			{Type: "Other", Status: corev1.ConditionUnknown},
			{
				Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(time.Unix(7, 0)), Reason: "FailedCreate", Message: "boom",
			},
		},
	}
}

// Pins RS-26.
func TestStatusGoesBothWaysWithoutLoss(t *testing.T) {
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "rs", ResourceVersion: "10"},
		Spec:       appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](2)},
		Status:     fullStatus(),
	}
	status := statusOf(rs)
	want := replicas.Status{
		Replicas: 1, FullyLabeled: 2, Ready: 3, Available: 4, Terminating: ptr.To[int32](5), ObservedGeneration: 6,
		Conditions: []replicas.Condition{
			{Type: "Other", Status: corev1.ConditionUnknown},
			{
				Type: replicas.ReplicaFailure, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(time.Unix(7, 0)), Reason: "FailedCreate", Message: "boom",
			},
		},
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Error(diff)
	}
	before := rs.DeepCopy()
	blank := rs.DeepCopy()
	blank.Status = appsv1.ReplicaSetStatus{}
	if diff := cmp.Diff(rs, withStatus(blank, status)); diff != "" {
		t.Error(diff)
	}
	withStatus(rs, replicas.Status{})
	if diff := cmp.Diff(before, rs); diff != "" {
		t.Errorf("the cached object was changed: %s", diff)
	}
}

func TestSpec(t *testing.T) {
	for _, test := range []struct {
		name string
		spec appsv1.ReplicaSetSpec
		want replicas.Spec
	}{
		{"given", appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](3), MinReadySeconds: 5}, replicas.Spec{Replicas: 3, MinReadySeconds: 5}},
		{"none", appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](0)}, replicas.Spec{}},
		{"not defaulted", appsv1.ReplicaSetSpec{}, replicas.Spec{Replicas: 1}},
	} {
		if got := specOf(&appsv1.ReplicaSet{Spec: test.spec}); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}
