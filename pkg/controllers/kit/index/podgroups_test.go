package index

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestGroupOfAPod(t *testing.T) {
	in := func(group *corev1.PodSchedulingGroup) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}, Spec: corev1.PodSpec{SchedulingGroup: group}}
	}
	for name, test := range map[string]struct {
		object any
		want   []string
	}{
		"in a group":          {in(&corev1.PodSchedulingGroup{PodGroupName: ptr.To("group")}), []string{"ns/group"}},
		"in none":             {in(nil), nil},
		"in one without name": {in(&corev1.PodSchedulingGroup{}), nil},
		"not a pod":           {1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := groupKeys(test.object); err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}
