package endpoints

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

func pods(n int) (all []*corev1.Pod) {
	for i := range n {
		all = append(all, testPod(i))
	}
	return all
}

// Pins EP-35.
func TestContentsThatAreStored(t *testing.T) {
	labelled := func(key, value string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Labels[key] = value }
	}
	for name, tc := range map[string]struct {
		pods    int
		service func(*corev1.Service)
		change  func(*corev1.Endpoints)
		want    bool
	}{
		"EP-35d: as written":               {2, nil, func(*corev1.Endpoints) {}, true},
		"EP-48: no subsets":                {0, nil, func(e *corev1.Endpoints) { e.Subsets = []corev1.EndpointSubset{} }, true},
		"EP-48: nil subsets":               {0, nil, func(e *corev1.Endpoints) { e.Subsets = nil }, true},
		"EP-35a: other order":              {3, nil, func(e *corev1.Endpoints) { slices.Reverse(e.Subsets[0].Addresses) }, true},
		"EP-35a, EP-48: versions of pods":  {2, nil, func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].TargetRef.ResourceVersion = "5" }, true},
		"EP-35a: an address too few":       {2, nil, func(e *corev1.Endpoints) { e.Subsets[0].Addresses = e.Subsets[0].Addresses[:1] }, false},
		"EP-35a: another port":             {2, nil, func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].Port = 1 }, false},
		"EP-35a: another node":             {2, nil, func(e *corev1.Endpoints) { *e.Subsets[0].Addresses[0].NodeName = "x" }, false},
		"other annotations":                {2, nil, func(e *corev1.Endpoints) { e.Annotations["x"] = "y" }, true},
		"trigger time":                     {2, nil, func(e *corev1.Endpoints) { delete(e.Annotations, corev1.EndpointsLastChangeTriggerTime) }, true},
		"EP-35b: foreign label":            {2, nil, func(e *corev1.Endpoints) { e.Labels["x"] = "y" }, false},
		"EP-35b: missing label":            {2, nil, func(e *corev1.Endpoints) { delete(e.Labels, "team") }, false},
		"EP-35b: not marked as ours":       {2, nil, func(e *corev1.Endpoints) { delete(e.Labels, managedByLabel) }, false},
		"EP-35b: marked as another's":      {2, nil, func(e *corev1.Endpoints) { e.Labels[managedByLabel] = "x" }, false},
		"EP-35b: headless label":           {2, nil, func(e *corev1.Endpoints) { e.Labels[corev1.IsHeadlessService] = "" }, true},
		"EP-60: headless Service label":    {2, labelled(corev1.IsHeadlessService, "x"), func(*corev1.Endpoints) {}, true},
		"EP-60: managed Service label":     {2, labelled(managedByLabel, "x"), func(*corev1.Endpoints) {}, true},
		"EP-35c: over capacity, was not":   {2, nil, func(e *corev1.Endpoints) { e.Annotations[corev1.EndpointsOverCapacity] = truncatedValue }, false},
		"over capacity, a warning":         {2, nil, func(e *corev1.Endpoints) { e.Annotations[corev1.EndpointsOverCapacity] = "warning" }, false},
		"EP-59: truncated":                 {1200, nil, func(*corev1.Endpoints) {}, true},
		"truncated, unmarked":              {1200, nil, func(e *corev1.Endpoints) { delete(e.Annotations, corev1.EndpointsOverCapacity) }, false},
		"truncated, a warning":             {1200, nil, func(e *corev1.Endpoints) { e.Annotations[corev1.EndpointsOverCapacity] = "warning" }, false},
		"EP-35c: duplicates over capacity": {600, nil, func(e *corev1.Endpoints) { e.Subsets = append(e.Subsets, e.Subsets[0]) }, false},
		"EP-35a: duplicates":               {6, nil, func(e *corev1.Endpoints) { e.Subsets = append(e.Subsets, e.Subsets[0]) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			service := testService()
			if tc.service != nil {
				tc.service(service)
			}
			current := testEndpoints(pods(tc.pods), tc.change)
			if got := newContents(service, pods(tc.pods)).stored(current); got != tc.want {
				t.Errorf("stored = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestAppliedContents(t *testing.T) {
	current := testEndpoints(nil, func(e *corev1.Endpoints) {
		e.Labels["old"] = "label"
		e.Annotations = map[string]string{"kept": "yes", corev1.EndpointsOverCapacity: "warning", corev1.EndpointsLastChangeTriggerTime: "then"}
	})
	cached := current.DeepCopy()
	trigger := time.Date(2026, 3, 1, 1, 2, 3, 4, time.FixedZone("east", 3600))
	for name, tc := range map[string]struct {
		service     func(*corev1.Service)
		pods        int
		current     *corev1.Endpoints
		trigger     time.Time
		labels      map[string]string
		annotations map[string]string
	}{
		"EP-36a, EP-36d: created": {nil, 1, nil, trigger,
			map[string]string{"team": "a", managedByLabel: managedBy},
			map[string]string{corev1.EndpointsLastChangeTriggerTime: "2026-03-01T00:02:03.000000004Z"}},
		"EP-36a: created without a time": {nil, 1, nil, time.Time{}, map[string]string{"team": "a", managedByLabel: managedBy}, nil},
		"EP-36, EP-36a: updated": {nil, 1, current, trigger,
			map[string]string{"team": "a", managedByLabel: managedBy},
			map[string]string{"kept": "yes", corev1.EndpointsLastChangeTriggerTime: "2026-03-01T00:02:03.000000004Z"}},
		"EP-36a: updated without a time": {nil, 1, current, time.Time{}, map[string]string{"team": "a", managedByLabel: managedBy}, map[string]string{"kept": "yes"}},
		"EP-36b: truncated": {nil, 1001, current, time.Time{}, map[string]string{"team": "a", managedByLabel: managedBy},
			map[string]string{"kept": "yes", corev1.EndpointsOverCapacity: truncatedValue}},
		"EP-36d: headless": {func(s *corev1.Service) { s.Spec.ClusterIP = "None" }, 1, nil, time.Time{},
			map[string]string{"team": "a", managedByLabel: managedBy, corev1.IsHeadlessService: ""}, nil},
		"EP-36d: no cluster IP": {func(s *corev1.Service) { s.Spec.ClusterIP = "" }, 1, nil, time.Time{},
			map[string]string{"team": "a", managedByLabel: managedBy, corev1.IsHeadlessService: ""}, nil},
		"labels that are ours": {func(s *corev1.Service) {
			s.Labels = map[string]string{managedByLabel: "x", corev1.IsHeadlessService: "x"}
		}, 1, nil, time.Time{}, map[string]string{managedByLabel: managedBy}, nil},
		"EP-36: no labels": {func(s *corev1.Service) { s.Labels = nil }, 1, current, time.Time{}, map[string]string{managedByLabel: managedBy}, map[string]string{"kept": "yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			service := testService()
			if tc.service != nil {
				tc.service(service)
			}
			before := service.DeepCopy()
			got := newContents(service, pods(tc.pods)).applied(tc.current, tc.trigger)
			if !maps.Equal(got.Labels, tc.labels) {
				t.Errorf("labels are %v, want %v", got.Labels, tc.labels)
			}
			if !maps.Equal(got.Annotations, tc.annotations) {
				t.Errorf("annotations are %v, want %v", got.Annotations, tc.annotations)
			}
			if n := min(tc.pods, maxAddresses); fmt.Sprint(len(got.Subsets), len(got.Subsets[0].Addresses)) != fmt.Sprint(1, n) {
				t.Errorf("subsets are %v, want %d addresses", addresses(got.Subsets), n)
			}
			if len(got.OwnerReferences) != 0 || got.Name != "web" || got.Namespace != "n" {
				t.Errorf("metadata is %+v", got.ObjectMeta)
			}
			if tc.current != nil && (got.ResourceVersion != "1" || got.UID != "endpoints") {
				t.Errorf("the update is of %s %s", got.UID, got.ResourceVersion)
			}
			if !equality.Semantic.DeepEqual(service, before) || !equality.Semantic.DeepEqual(current, cached) {
				t.Error("a cached object was changed")
			}
		})
	}
}

// Pins EP-50.
func TestTheCachedServiceIsLeftAsItIs(t *testing.T) {
	service := testService(func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })
	before := service.DeepCopy()
	for name, current := range map[string]*corev1.Endpoints{"created": nil, "updated": testEndpoints(nil)} {
		got := newContents(service, pods(1)).applied(current, created)
		if _, headless := got.Labels[corev1.IsHeadlessService]; !headless || !equality.Semantic.DeepEqual(service, before) {
			t.Errorf("%s: the labels are %v, those of the Service %v", name, got.Labels, service.Labels)
		}
	}
}
