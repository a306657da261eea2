package endpointslicemirroring

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func names(all []*discoveryv1.EndpointSlice) (list []string) {
	for _, s := range all {
		list = append(list, s.Name+s.GenerateName)
	}
	return list
}

func planText(p *plan) string {
	return fmt.Sprint("create ", names(p.create), " update ", names(p.update), " remove ", names(p.remove), " unchanged ", names(p.unchanged))
}

func TestPlan(t *testing.T) {
	v4, v6 := subset(80, []string{"10.0.0.1"}, nil), subset(80, []string{"fd00::1"}, nil)
	other := subset(90, []string{"10.0.0.2"}, nil)
	type list = []*discoveryv1.EndpointSlice
	change := func(f func(*discoveryv1.EndpointSlice)) list { return list{sliceOf("a", testEndpoints(v4), f)} }
	for name, tc := range map[string]struct {
		endpoints *corev1.Endpoints
		existing  list
		want      string
		counted   difference
	}{
		"nothing":                         {testEndpoints(), nil, "create [] update [] remove [] unchanged []", difference{}},
		"new":                             {testEndpoints(v4, v6), nil, "create [web- web-] update [] remove [] unchanged []", difference{added: 2}},
		"EPM-20b: right":                  {testEndpoints(v4), list{sliceOf("a", testEndpoints(v4))}, "create [] update [] remove [] unchanged [a]", difference{}},
		"EPM-20a: no addresses":           {testEndpoints(), list{sliceOf("a", testEndpoints(v4))}, "create [] update [] remove [a] unchanged []", difference{removed: 1}},
		"EPM-20c: more addresses":         {testEndpoints(subset(80, []string{"10.0.0.1", "10.0.0.2"}, nil)), list{sliceOf("a", testEndpoints(v4))}, "create [] update [a] remove [] unchanged []", difference{added: 1}},
		"EPM-20b: two of one group":       {testEndpoints(v4), list{sliceOf("b", testEndpoints(v4)), sliceOf("a", testEndpoints(v4))}, "create [] update [] remove [b] unchanged [a]", difference{removed: 1}},
		"EPM-20d, EPM-21: another port":   {testEndpoints(other), list{sliceOf("a", testEndpoints(v4))}, "create [] update [a] remove [] unchanged []", difference{added: 1, removed: 1}},
		"EPM-20d, EPM-21: another family": {testEndpoints(v6), list{sliceOf("a", testEndpoints(v4))}, "create [web-] update [] remove [a] unchanged []", difference{added: 1, removed: 1}},
		"EPM-21, EPM-28, EPM-46: recycled by family": {testEndpoints(v6, other), list{sliceOf("a", testEndpoints(v4)), sliceOf("b", testEndpoints(subset(70, []string{"10.0.0.7"}, nil)))},
			"create [web-] update [a] remove [b] unchanged []", difference{added: 2, removed: 2}},
		"EPM-20b, EPM-33: label missing":    {testEndpoints(v4), change(func(s *discoveryv1.EndpointSlice) { delete(s.Labels, "team") }), "create [] update [a] remove [] unchanged []", difference{}},
		"EPM-20b: label added":              {testEndpoints(v4), change(func(s *discoveryv1.EndpointSlice) { s.Labels["x"] = "y" }), "create [] update [a] remove [] unchanged []", difference{}},
		"EPM-20b, EPM-33: annotation added": {testEndpoints(v4), change(func(s *discoveryv1.EndpointSlice) { s.Annotations = map[string]string{"x": "y"} }), "create [] update [a] remove [] unchanged []", difference{}},
		"EPM-36: annotations empty":         {testEndpoints(v4), change(func(s *discoveryv1.EndpointSlice) { s.Annotations = map[string]string{} }), "create [] update [] remove [] unchanged [a]", difference{}},
		"EPM-33: last applied": {testEndpoints(v4), change(func(s *discoveryv1.EndpointSlice) {
			s.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}
		}), "create [] update [a] remove [] unchanged []", difference{}},
		"EPM-20b, EPM-30: owner recreated": {testEndpoints(v4), change(func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].UID = "old" }), "create [] update [a] remove [] unchanged []", difference{}},
		"another owner": {testEndpoints(v4), change(func(s *discoveryv1.EndpointSlice) {
			s.OwnerReferences[0] = metav1.OwnerReference{Kind: "Service", Name: "web", UID: "x"}
		}), "create [] update [] remove [] unchanged [a]", difference{}},
		"EPM-20b: conditions changed": {testEndpoints(v4), change(func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Serving = ptr.To(true) }), "create [] update [a] remove [] unchanged []", difference{updated: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var before list
			for _, s := range tc.existing {
				before = append(before, s.DeepCopy())
			}
			groups, _ := desiredGroups(tc.endpoints, 1000)
			p := newPlan(tc.endpoints, groups, tc.existing)
			if got := planText(p); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if p.endpoints != tc.counted {
				t.Errorf("endpoints %+v, want %+v", p.endpoints, tc.counted)
			}
			if !equality.Semantic.DeepEqual(before, tc.existing) {
				t.Error("a cached slice was changed")
			}
		})
	}
}

// TestPortsInAnyOrder: the slice is found by its ports, and keeps its order.
// Pins EPM-48.
func TestPortsInAnyOrder(t *testing.T) {
	endpoints := oneAddress(func(e *corev1.Endpoints) {
		for i := range int32(4) {
			e.Subsets[0].Ports = append(e.Subsets[0].Ports, corev1.EndpointPort{Name: fmt.Sprint("x", i), Port: i + 1})
		}
	})
	for range 10 {
		slice := sliceOf("a", endpoints)
		slices.Reverse(slice.Ports)
		before := slice.DeepCopy()
		groups, _ := desiredGroups(endpoints, 1000)
		if p := newPlan(endpoints, groups, []*discoveryv1.EndpointSlice{slice}); len(p.unchanged) != 1 {
			t.Fatalf("plan is %s", planText(p))
		}
		if !equality.Semantic.DeepEqual(slice, before) {
			t.Fatal("the cached slice was changed")
		}
	}
}

// Pins EPM-20c and EPM-51.
func TestMetadataOfASlice(t *testing.T) {
	endpoints := oneAddress(func(e *corev1.Endpoints) {
		e.Labels = map[string]string{"team": "a", discoveryv1.LabelManagedBy: "x", discoveryv1.LabelServiceName: "x", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
		e.Annotations = map[string]string{"kept": "yes", corev1.LastAppliedConfigAnnotation: "{}", corev1.EndpointsLastChangeTriggerTime: "now"}
	})
	slice := sliceOf("a", endpoints)
	wantLabels := map[string]string{"team": "a", discoveryv1.LabelManagedBy: managedBy, discoveryv1.LabelServiceName: "web", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
	if !maps.Equal(slice.Labels, wantLabels) || !maps.Equal(slice.Annotations, map[string]string{"kept": "yes"}) {
		t.Errorf("labels %v, annotations %v", slice.Labels, slice.Annotations)
	}
	want := metav1.OwnerReference{APIVersion: "v1", Kind: "Endpoints", Name: "web", UID: "endpoints", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}
	if !equality.Semantic.DeepEqual(slice.OwnerReferences, []metav1.OwnerReference{want}) {
		t.Errorf("owners are %+v", slice.OwnerReferences)
	}
	if len(endpoints.Annotations) != 3 {
		t.Error("the cached Endpoints were changed")
	}
	groups, _ := desiredGroups(endpoints, 1000)
	if p := newPlan(endpoints, groups, []*discoveryv1.EndpointSlice{slice}); len(p.unchanged) != 1 {
		t.Errorf("plan is %s: labels of slices on Endpoints are no difference", planText(p))
	}
	if got := namePrefix("web"); got != "web-" {
		t.Errorf("prefix is %q", got)
	}
	if long := strings.Repeat("a", 254); namePrefix(long) != long {
		t.Error("the prefix is too long")
	}
}
