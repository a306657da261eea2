package deployment

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Pins DEP-22.
func TestSplitByTemplate(t *testing.T) {
	twin := func(rs *appsv1.ReplicaSet) {
		rs.Spec.Template = podTemplate("v1")
		rs.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "another"
	}
	for _, tc := range []struct {
		name    string
		d       *appsv1.Deployment
		sets    []*appsv1.ReplicaSet
		current string
		old     []string
	}{
		{"none", makeDeployment(1), nil, "", nil},
		{"new among old ones, which are sorted by age", makeDeployment(1, image("v2")),
			[]*appsv1.ReplicaSet{makeSet(3, 0), makeSet(2, 0), makeSet(1, 0)}, "web-2", []string{"web-1", "web-3"}},
		{"all old", makeDeployment(1, image("v9")),
			[]*appsv1.ReplicaSet{makeSet(2, 0), makeSet(1, 0)}, "", []string{"web-1", "web-2"}},
		{"DEP-40: of two that match the older is new, the other is old", makeDeployment(1),
			[]*appsv1.ReplicaSet{makeSet(5, 0, twin), makeSet(1, 0)}, "web-1", []string{"web-5"}},
		{"the hash label does not count on either side", makeDeployment(1, func(d *appsv1.Deployment) {
			d.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "mine"
		}), []*appsv1.ReplicaSet{makeSet(1, 0)}, "web-1", nil},
		{"other labels count", makeDeployment(1, func(d *appsv1.Deployment) { d.Spec.Template.Labels["tier"] = "front" }),
			[]*appsv1.ReplicaSet{makeSet(1, 0)}, "", []string{"web-1"}},
		{"empty and missing are the same", makeDeployment(1, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Volumes = []corev1.Volume{} }),
			[]*appsv1.ReplicaSet{makeSet(1, 0)}, "web-1", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := split(tc.d, tc.sets)
			if (got.current == nil) != (tc.current == "") || (got.current != nil && got.current.Name != tc.current) {
				t.Errorf("new is %v, want %q", got.current, tc.current)
			}
			if !slices.Equal(names(got.old), tc.old) {
				t.Errorf("old are %v, want %v", names(got.old), tc.old)
			}
		})
	}
}

func TestSameTemplateLeavesItsArgumentsAlone(t *testing.T) {
	rs := makeSet(1, 1)
	if !sameTemplate(&rs.Spec.Template, &makeDeployment(1).Spec.Template) {
		t.Fatal("templates differ")
	}
	if rs.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] == "" {
		t.Error("the hash label of the cached object is gone")
	}
}

// Pins DEP-22.
func TestSameTemplate(t *testing.T) {
	tests := map[string]struct {
		change func(*corev1.PodTemplateSpec)
		same   bool
	}{
		"equal":           {func(*corev1.PodTemplateSpec) {}, true},
		"hash":            {func(p *corev1.PodTemplateSpec) { p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "other" }, true},
		"empty, not nil":  {func(p *corev1.PodTemplateSpec) { p.Annotations = map[string]string{} }, true},
		"label added":     {func(p *corev1.PodTemplateSpec) { p.Labels["tier"] = "" }, false},
		"no labels":       {func(p *corev1.PodTemplateSpec) { p.Labels = nil }, false},
		"annotation":      {func(p *corev1.PodTemplateSpec) { p.Annotations = map[string]string{"restarted": "now"} }, false},
		"image":           {func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = "other" }, false},
		"rest of the pod": {func(p *corev1.PodTemplateSpec) { p.Spec.NodeName = "node" }, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			rs := makeSet(1, 1)
			tc.change(&rs.Spec.Template)
			template := &makeDeployment(1).Spec.Template
			if got := sameTemplate(&rs.Spec.Template, template); got != tc.same {
				t.Errorf("got %v, want %v", got, tc.same)
			}
			if got := sameTemplate(template, &rs.Spec.Template); got != tc.same {
				t.Errorf("the other way round: got %v, want %v", got, tc.same)
			}
		})
	}
}

func TestReplacePutsWhatWasWrittenInPlace(t *testing.T) {
	cached := []*appsv1.ReplicaSet{makeSet(1, 1), makeSet(2, 1)}
	sets := replicaSets{current: makeSet(3, 1), old: cached}
	sets.replace(makeSet(2, 0))
	sets.replace(makeSet(3, 9))
	if got := sizeOf(sets.old[1]); got != 0 {
		t.Errorf("old set has size %d, want 0", got)
	}
	if got := sizeOf(sets.current); got != 9 {
		t.Errorf("new set has size %d, want 9", got)
	}
	if sizeOf(cached[1]) != 1 {
		t.Error("the slice of the caller was changed")
	}
	if got := names(sets.all()); !slices.Equal(got, []string{"web-1", "web-2", "web-3"}) {
		t.Errorf("all() = %v", got)
	}
}

// Pins WL-81, WL-82, WL-83 and WL-84.
func TestSortOrders(t *testing.T) {
	// born gives sets with equal revisions their age and name.
	born := func(name string, age int, size int32, revision string) *appsv1.ReplicaSet {
		return makeSet(age, size, func(rs *appsv1.ReplicaSet) { rs.Name = name }, noted(revisionAnnotation, revision))
	}
	sets := []*appsv1.ReplicaSet{
		born("young-big", 3, 9, "2"), born("b", 2, 5, "10"), born("a", 2, 5, "1"), born("old-big", 1, 9, "x"),
	}
	for _, tc := range []struct {
		name  string
		order func(a, b *appsv1.ReplicaSet) int
		want  []string
	}{
		{"by creation, then name", byCreation, []string{"old-big", "a", "b", "young-big"}},
		{"large and newer first", bySizeNewer, []string{"young-big", "old-big", "b", "a"}},
		{"large and older first", bySizeOlder, []string{"old-big", "young-big", "a", "b"}},
		{"by revision as numbers", byRevision, []string{"old-big", "a", "young-big", "b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := names(slices.SortedStableFunc(slices.Values(sets), tc.order)); !slices.Equal(got, tc.want) {
				t.Errorf("order is %v, want %v", got, tc.want)
			}
		})
	}
}

// Pins WL-84.
func TestEqualRevisionsAreSortedByCreation(t *testing.T) {
	a, b := makeSet(1, 0, noted(revisionAnnotation, "4")), makeSet(2, 0, noted(revisionAnnotation, "4"))
	if byRevision(a, b) >= 0 || byRevision(b, a) <= 0 {
		t.Error("the older of two equal revisions must come first")
	}
}
