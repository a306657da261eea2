package endpointslice

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/endpointslice/util"
)

func selectingService(name string, selector map[string]string) *corev1.Service {
	return testService(func(s *corev1.Service) { s.Name, s.Spec.Selector = name, selector })
}

func TestServicesConcernedByAPodChange(t *testing.T) {
	b := newBench(t, defaults,
		selectingService("a", map[string]string{"app": "a"}),
		selectingService("b", map[string]string{"app": "b"}),
		selectingService("a1", map[string]string{"app": "a", "v": "1"}),
		selectingService("all", map[string]string{}),
		selectingService("none", nil),
		testService(func(s *corev1.Service) {
			s.Namespace, s.Name, s.Spec.Selector = "m", "a", map[string]string{"app": "a"}
		}),
	).begin(t)
	for name, tc := range map[string]struct {
		change util.PodProjectionKey
		want   []string
	}{
		"pod":                {util.PodProjectionKey{Labels: labels.Set{"app": "a"}}, []string{"n/a", "n/all"}},
		"two labels":         {util.PodProjectionKey{Labels: labels.Set{"app": "a", "v": "1"}}, []string{"n/a", "n/a1", "n/all"}},
		"without labels":     {util.PodProjectionKey{}, []string{"n/all"}},
		"relabelled":         {util.PodProjectionKey{Labels: labels.Set{"app": "b"}, OldLabels: labels.Set{"app": "a"}}, []string{"n/a", "n/b"}},
		"relabelled in part": {util.PodProjectionKey{Labels: labels.Set{"app": "a", "v": "1"}, OldLabels: labels.Set{"app": "a"}}, []string{"n/a1"}},
		"relabelled and changed": {util.PodProjectionKey{Labels: labels.Set{"app": "b"}, OldLabels: labels.Set{"app": "a"}, PodChanged: true},
			[]string{"n/a", "n/b", "n/all"}},
		"hostname changed": {util.PodProjectionKey{Labels: labels.Set{"app": "a"}, OldLabels: labels.Set{"app": "a"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tc.change.Namespace = "n"
			got, err := b.c.concerned(changeOf(&tc.change))
			if err != nil {
				t.Fatal(err)
			}
			if !got.Equal(sets.New(tc.want...)) {
				t.Errorf("concerned are %v, want %v", sets.List(got), tc.want)
			}
			fromLibrary, err := util.GetServicesToUpdate(b.c.services, &tc.change)
			if err != nil {
				t.Fatal(err)
			}
			if !sets.New(fromLibrary.UnsortedList()...).Equal(got) {
				t.Errorf("concerned are %v, the library says %v", sets.List(got), fromLibrary.List())
			}
		})
	}
}

func TestLabelsSurviveThePodChange(t *testing.T) {
	for _, set := range []labels.Set{nil, {"a": ""}, {"a": "b"}, {"app.kubernetes.io/name": "web", "b": "", "c": "x-y_z.1"}} {
		got := parseLabels(set.String())
		if !labels.Equals(got, set) {
			t.Errorf("%v came back as %v", set, got)
		}
	}
}
