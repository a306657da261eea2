package pvexpander

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pins PVX-21i and PVX-30.
func TestConditionsAreMerged(t *testing.T) {
	before, now := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	was := func(condition corev1.PersistentVolumeClaimConditionType, status corev1.ConditionStatus) corev1.PersistentVolumeClaimCondition {
		return corev1.PersistentVolumeClaimCondition{Type: condition, Status: status, LastTransitionTime: before, Message: "was"}
	}
	other, modified := was("Other", corev1.ConditionTrue), was(corev1.PersistentVolumeClaimVolumeModifyVolumeError, corev1.ConditionTrue)
	resizing, notResizing := was(corev1.PersistentVolumeClaimResizing, corev1.ConditionTrue), was(corev1.PersistentVolumeClaimResizing, corev1.ConditionFalse)
	pending := was(corev1.PersistentVolumeClaimFileSystemResizePending, corev1.ConditionTrue)
	failed, nodeFailed := was(corev1.PersistentVolumeClaimControllerResizeError, corev1.ConditionTrue), was(corev1.PersistentVolumeClaimNodeResizeError, corev1.ConditionTrue)
	isNow := isTrue(corev1.PersistentVolumeClaimResizing, now)
	for name, tc := range map[string]struct{ is, begun, without, also conditions }{
		"PVX-21i: none":                  {nil, conditions{isNow}, nil, conditions{isNow}},
		"PVX-21i: others":                {conditions{other, modified}, conditions{other, modified, isNow}, conditions{other, modified}, conditions{other, modified, isNow}},
		"PVX-21i: unchanged":             {conditions{resizing, other}, conditions{resizing, other}, conditions{other}, conditions{resizing, other}},
		"PVX-21i: changed":               {conditions{notResizing, other}, conditions{isNow, other}, conditions{other}, conditions{isNow, other}},
		"PVX-21i, PVX-30: in the middle": {conditions{pending, other, failed, notResizing, nodeFailed}, conditions{other, isNow}, conditions{other}, conditions{pending, other, failed, isNow, nodeFailed}},
		"PVX-21i: only ones about it":    {conditions{failed, nodeFailed, pending}, conditions{isNow}, nil, conditions{failed, nodeFailed, pending, isNow}},
	} {
		t.Run(name, func(t *testing.T) {
			given := append(conditions(nil), tc.is...)
			for _, got := range []struct {
				what      string
				got, want conditions
			}{
				{"only", only(tc.is, isNow), tc.begun},
				{"withoutResize", withoutResize(tc.is), tc.without},
				{"with", with(tc.is, isNow), tc.also},
			} {
				if !reflect.DeepEqual(got.got, got.want) {
					t.Errorf("%s: got %v, want %v", got.what, got.got, got.want)
				}
			}
			if !reflect.DeepEqual(tc.is, given) {
				t.Errorf("the given ones were changed: %v", tc.is)
			}
		})
	}
}
