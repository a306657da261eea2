package endpointslice

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
)

func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.Name != "endpointslice-controller" || !slices.Equal(d.Aliases, []string{"endpointslice"}) ||
		d.ServiceAccount != "endpointslice-controller" || d.EventSource != "endpoint-slice-controller" {
		t.Errorf("descriptor is %+v", d)
	}
	cfg := v1beta1.NewDefault()
	if got := d.Value(cfg); got != defaults {
		t.Errorf("default value is %+v, want %+v", got, defaults)
	}
	cfg.Controllers.EndpointSlice.ConcurrentSyncs = ptr.To[int32](7)
	cfg.Controllers.EndpointSlice.MaxEndpointsPerSlice = ptr.To[int32](9)
	cfg.Controllers.EndpointSlice.EndpointUpdatesBatchPeriod = &metav1.Duration{Duration: time.Second}
	if got, want := d.Value(cfg), (config{7, 9, time.Second, true}); got != want {
		t.Errorf("value is %+v, want %+v", got, want)
	}
}

// Pins EPS-28c and EPS-34.
func TestSliceDescribesThePods(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1),
		testPod(2, func(p *corev1.Pod) { p.Status.Conditions = nil }),
		testPod(3, func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }),
		testPod(4, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		testPod(5, func(p *corev1.Pod) { p.Labels["app"] = "other" }),
	).begin(t)
	succeeded := syncs(t, "success")
	b.MustReconcile(t)

	slice := b.one(t)
	wantLabels := map[string]string{"team": "a", discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: managedBy}
	if fmt.Sprint(slice.Labels) != fmt.Sprint(wantLabels) {
		t.Errorf("labels are %v, want %v", slice.Labels, wantLabels)
	}
	if got := slice.Annotations[corev1.EndpointsLastChangeTriggerTime]; got != "2026-01-01T00:00:00Z" {
		t.Errorf("trigger time is %q", got)
	}
	var got []string
	for _, e := range slice.Endpoints {
		got = append(got, fmt.Sprintf("%s ready=%v serving=%v terminating=%v zone=%s", e.TargetRef.Name,
			*e.Conditions.Ready, *e.Conditions.Serving, *e.Conditions.Terminating, *e.Zone))
	}
	slices.Sort(got)
	want := []string{
		"web-1 ready=true serving=true terminating=false zone=zone-a",
		"web-2 ready=false serving=false terminating=false zone=zone-a",
		"web-3 ready=false serving=true terminating=true zone=zone-a",
	}
	if !slices.Equal(got, want) {
		t.Errorf("endpoints are\n%s", strings.Join(got, "\n"))
	}
	if syncs(t, "success") != succeeded+1 {
		t.Error("the sync was not counted as success")
	}
}

func TestServicesThatAreLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*corev1.Service){
		"EPS-20: ExternalName": func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
		"EPS-20: no selector":  func(s *corev1.Service) { s.Spec.Selector = nil },
		"EPS-19: gone":         func(s *corev1.Service) { s.Name = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, testService(change), testNode("node-a", "zone-a"), testPod(1), testSlice("left")).begin(t)
			b.MustReconcile(t)
			if n := len(b.Writes()); n != 0 {
				t.Errorf("%d writes, want none", n)
			}
		})
	}
}

// Pins EPS-19.
func TestGoneServiceIsForgotten(t *testing.T) {
	b := newBench(t, defaults, testSlice("left")).begin(t)
	service := testService()
	b.c.inputs.markUpToDate(web, 1)
	b.c.topology.cache.SetHints(web.String(), discoveryv1.AddressTypeIPv6, nil)
	b.c.triggers.ComputeEndpointLastChangeTriggerTime("n", service, nil)
	b.c.pending.noteFailure(web)
	b.c.pending.conclude(web, time.Unix(1, 0))
	b.c.written.Stale(b.Context(), web, nil) // it lacks the slice that was found
	b.MustReconcile(t)
	_, awaited := b.c.written.Awaited(testSlice("left"))
	if b.c.inputs.upToDate(web, 1) || b.c.topology.cache.HasPopulatedHints(web.String()) ||
		len(b.c.triggers.ServiceStates) != 0 || b.c.written.Tracker.Has(testSlice("left")) || awaited ||
		!b.c.pending.earliest(web, time.Time{}).IsZero() {
		t.Error("something is still remembered of the Service")
	}
}

// Pins EPS-31 and EPS-50.
func TestServiceWithoutPodsGetsAPlaceholder(t *testing.T) {
	b := newBench(t, defaults, testService()).begin(t)
	b.MustReconcile(t)
	if slice := b.one(t); len(slice.Endpoints) != 0 || len(slice.Ports) != 0 {
		t.Errorf("placeholder holds %v %v", slice.Endpoints, slice.Ports)
	}
	b.observed(t)
	b.MustReconcile(t)
	if len(b.Writes()) != 1 {
		t.Errorf("%d writes, want the one create", len(b.Writes()))
	}
}

// TestDeletedSliceIsCreatedAgain: with the slice gone, the inputs are those on which it
// was created.
func TestDeletedSliceIsCreatedAgain(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1)).begin(t)
	b.MustReconcile(t)
	first := b.one(t)
	b.observed(t)
	if err := b.Fake.DiscoveryV1().EndpointSlices("n").Delete(t.Context(), first.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.observed(t)
	controllertest.Eventually(t, "the deletion is noted", func() bool { return !b.c.written.Tracker.Has(first) })
	b.MustReconcile(t)
	if again := b.one(t); again.UID == first.UID || len(again.Endpoints) != 1 {
		t.Errorf("stored is %+v", again)
	}
}

func TestEmptySelectorSelectsEveryPodOfTheNamespace(t *testing.T) {
	b := newBench(t, defaults, testService(func(s *corev1.Service) { s.Spec.Selector = map[string]string{} }),
		testNode("node-a", "zone-a"), testPod(1), testPod(2, func(p *corev1.Pod) { p.Labels = nil }),
		testPod(3, func(p *corev1.Pod) { p.Namespace = "other" })).begin(t)
	b.MustReconcile(t)
	if n := len(b.one(t).Endpoints); n != 2 {
		t.Errorf("%d endpoints, want 2", n)
	}
}

// Pins EPS-22 and EPS-47.
func TestSliceBeingDeletedIsReplaced(t *testing.T) {
	stuck := testSlice("stuck", func(s *discoveryv1.EndpointSlice) {
		s.DeletionTimestamp, s.Finalizers = ptr.To(metav1.Now()), []string{"example.com/hold"}
	})
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1), stuck).begin(t)
	b.c.written.Tracker.Update(stuck) // written before somebody deleted it
	b.MustReconcile(t)
	if n := len(b.stored(t)); n != 2 {
		t.Errorf("%d slices, want the one that is stuck and another one", n)
	}
}

// Pins EPS-64.
func TestReconcileWithoutNewInputsSkipsTheLibrary(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1)).begin(t)
	b.MustReconcile(t)
	b.observed(t)
	b.MustReconcile(t) // with the slice it created
	library := b.c.reconciler
	b.c.reconciler = nil
	succeeded := syncs(t, "success")
	b.MustReconcile(t)
	if syncs(t, "success") != succeeded+1 {
		t.Error("the sync was not counted")
	}
	b.c.reconciler = library
	b.Cache(t, testPod(1, func(p *corev1.Pod) { p.Status.Conditions = nil }))
	b.MustReconcile(t)
	if *b.one(t).Endpoints[0].Conditions.Ready {
		t.Error("the change of the pod was not written")
	}
}
