package replicationcontroller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/workloads/replicas"
)

// Pins RC-14.
func TestStatusGoesBothWaysWithoutLoss(t *testing.T) {
	rc := &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "rc", ResourceVersion: "10"},
		Spec:       corev1.ReplicationControllerSpec{Replicas: ptr.To[int32](2)},
		Status: corev1.ReplicationControllerStatus{
			Replicas: 1, FullyLabeledReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 4, ObservedGeneration: 6,
			Conditions: []corev1.ReplicationControllerCondition{{
				Type: corev1.ReplicationControllerReplicaFailure, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(time.Unix(7, 0)), Reason: "FailedCreate", Message: "boom",
			}},
		},
	}
	status := statusOf(rc)
	want := replicas.Status{
		Replicas: 1, FullyLabeled: 2, Ready: 3, Available: 4, ObservedGeneration: 6,
		Conditions: []replicas.Condition{{
			Type: replicas.ReplicaFailure, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(time.Unix(7, 0)), Reason: "FailedCreate", Message: "boom",
		}},
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Error(diff)
	}
	before, blank := rc.DeepCopy(), rc.DeepCopy()
	blank.Status = corev1.ReplicationControllerStatus{}
	if diff := cmp.Diff(rc, withStatus(blank, status)); diff != "" {
		t.Error(diff)
	}
	withStatus(rc, replicas.Status{})
	if diff := cmp.Diff(before, rc); diff != "" {
		t.Errorf("the cached object was changed: %s", diff)
	}
}

// Pins RC-8.
func TestSelector(t *testing.T) {
	set := labels.Set{"app": "a", "more": "x"}
	for _, test := range []struct {
		name     string
		selector map[string]string
		want     bool
		wantErr  bool
	}{
		{"matching", map[string]string{"app": "a"}, true, false},
		{"not matching", map[string]string{"app": "b"}, false, false},
		{"empty", map[string]string{}, false, false},
		{"none", nil, false, false},
		{"invalid", map[string]string{"app": "no spaces"}, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			selector, err := selectorOf(&corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Selector: test.selector}})
			if (err != nil) != test.wantErr {
				t.Fatalf("error: %v", err)
			}
			if err == nil && selector.Matches(set) != test.want {
				t.Errorf("%v matches: %v", selector, !test.want)
			}
		})
	}
}

func TestSpec(t *testing.T) {
	rc := &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{MinReadySeconds: 5}}
	if got := specOf(rc); got != (replicas.Spec{Replicas: 1, MinReadySeconds: 5}) {
		t.Errorf("not defaulted: %+v", got)
	}
	rc.Spec.Replicas = ptr.To[int32](0)
	if got := specOf(rc); got.Replicas != 0 {
		t.Errorf("none: %+v", got)
	}
}

// Pins RC-13.
func TestTemplate(t *testing.T) {
	template := func(annotations map[string]string, account, deprecated string) *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}, Annotations: annotations},
			Spec:       corev1.PodSpec{ServiceAccountName: account, DeprecatedServiceAccount: deprecated},
		}
	}
	for _, test := range []struct {
		name        string
		given, want *corev1.PodTemplateSpec
	}{
		{"none", nil, &corev1.PodTemplateSpec{}},
		{"kept", template(map[string]string{"a": "b"}, "", ""), template(map[string]string{"a": "b"}, "", "")},
		{"service account is mirrored", template(nil, "sa", ""), template(nil, "sa", "sa")},
		{"the new field wins", template(nil, "sa", "old"), template(nil, "sa", "sa")},
		{"old init containers are dropped", template(map[string]string{
			"a": "b",
			"pod.alpha.kubernetes.io/init-containers":         "[]",
			"pod.beta.kubernetes.io/init-containers":          "[]",
			"pod.alpha.kubernetes.io/init-container-statuses": "[]",
			"pod.beta.kubernetes.io/init-container-statuses":  "[]",
		}, "", ""), template(map[string]string{"a": "b"}, "", "")},
	} {
		t.Run(test.name, func(t *testing.T) {
			rc := &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: test.given}}
			before := rc.DeepCopy()
			if diff := cmp.Diff(test.want, templateOf(rc)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, rc); diff != "" {
				t.Errorf("the cached object was changed: %s", diff)
			}
		})
	}
}
