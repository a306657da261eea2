package endpointslicemirroring

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.Name != "endpointslice-mirroring-controller" || !slices.Equal(d.Aliases, []string{"endpointslicemirroring"}) ||
		d.ServiceAccount != "endpointslicemirroring-controller" || d.EventSource != "endpoint-slice-mirroring-controller" {
		t.Errorf("descriptor is %+v", d)
	}
	cfg := v1beta1.NewDefault()
	if got := d.Value(cfg); got != defaults {
		t.Errorf("default value is %+v, want %+v", got, defaults)
	}
	cfg.Controllers.EndpointSliceMirroring.ConcurrentSyncs = ptr.To[int32](7)
	cfg.Controllers.EndpointSliceMirroring.MaxEndpointsPerSubset = ptr.To[int32](9)
	cfg.Controllers.EndpointSliceMirroring.EndpointUpdatesBatchPeriod = &metav1.Duration{Duration: time.Second}
	if got, want := d.Value(cfg), (config{7, 9, time.Second}); got != want {
		t.Errorf("value is %+v, want %+v", got, want)
	}
	if _, err := d.New(controllertest.New(t).Env, d.Value(cfg)); err != nil {
		t.Fatal(err)
	}
}

// Pins EPM-18 and EPM-20c.
func TestEndpointsAreMirrored(t *testing.T) {
	b := newBench(t, defaults, testService(nil), testEndpoints(subset(80, []string{"10.0.0.1", "fd00::1"}, []string{"10.0.0.2"}))).begin(t)
	b.MustReconcile(t)
	want := []string{"IPv4 80: (10.0.0.2) 10.0.0.1", "IPv6 80: fd00::1"}
	if got := sliceTexts(b.stored(t)); !slices.Equal(got, want) {
		t.Errorf("slices are %q, want %q", got, want)
	}
	b.observed(t)
	b.MustReconcile(t)
	if got := b.WriteVerbs(); len(got) != 2 {
		t.Errorf("writes are %v, want two creates", got)
	}
}

// Slices with another managed-by label are those of somebody else, even if they name the Service. Pins EPM-3.
func TestSlicesAreOursByTheirLabel(t *testing.T) {
	managed := func(by string) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = by }
	}
	const us = "endpointslicemirroring-controller.k8s.io"
	foreign := sliceOf("foreign", oneAddress(), managed("endpointslice-controller.k8s.io"))
	endpoints := testEndpoints(subset(80, []string{"10.0.0.2"}, nil))
	b := newBench(t, defaults, testService(nil), endpoints, foreign, sliceOf("ours", oneAddress(), managed(us))).begin(t)
	b.Requests()
	b.MustReconcile(t)
	b.WantRequests(t, "update endpointslices ours")
	stored := controllertest.MustStored[*discoveryv1.EndpointSlice](t, b.Env, "n", "ours")
	if got := stored.Labels[discoveryv1.LabelManagedBy]; got != us {
		t.Errorf("managed by %q", got)
	}
}

// Pins EPM-41.
func TestRequestsOfEndpoints(t *testing.T) {
	first, second := subset(80, []string{"10.0.0.1", "fd00::1"}, nil), subset(90, []string{"10.0.0.2"}, nil)
	more := subset(80, []string{"10.0.0.1", "10.0.0.3", "fd00::1"}, nil)
	b := newBench(t, defaults, testService(nil), testEndpoints(first, second)).begin(t)
	for _, step := range []struct {
		subsets []corev1.EndpointSubset
		want    []string
	}{
		{[]corev1.EndpointSubset{first, second}, slices.Repeat([]string{"create endpointslices"}, 3)},
		{[]corev1.EndpointSubset{more, second}, []string{"update endpointslices"}},
		{[]corev1.EndpointSubset{more, second}, nil},
		{nil, slices.Repeat([]string{"delete endpointslices"}, 3)},
	} {
		b.Cache(t, testEndpoints(step.subsets...))
		b.Requests()
		b.MustReconcile(t)
		b.WantRequests(t, step.want...)
		b.observed(t)
	}
}

// That Endpoints belong to a Service with a selector is seen late, but costs no request. Pins EPM-42.
func TestEndpointsOfSelectorServicesCostNothing(t *testing.T) {
	selecting := testService(map[string]string{"a": "b"})
	b := newBench(t, defaults, selecting)
	b.c.endpointsFuncs().Update(reconcile.Fresh, oneAddress(), oneAddress())
	if n := b.c.loop.Inspect().Depth; n != 1 {
		t.Errorf("%d keys, want one", n)
	}
	b = newBench(t, defaults, selecting, oneAddress()).begin(t)
	b.Requests()
	b.MustReconcile(t)
	b.WantRequests(t)
}

func TestWhatIsNotMirrored(t *testing.T) {
	with := func(change func(*corev1.Endpoints)) []runtime.Object {
		return []runtime.Object{testService(nil), oneAddress(change)}
	}
	for name, tc := range map[string]struct {
		objects  []runtime.Object
		mirrored bool
	}{
		"EPM-15a: no Endpoints":   {[]runtime.Object{testService(nil)}, false},
		"EPM-15a: no Service":     {[]runtime.Object{oneAddress()}, false},
		"EPM-15a: selector":       {[]runtime.Object{testService(map[string]string{"a": "b"}), oneAddress()}, false},
		"EPM-15a: empty selector": {[]runtime.Object{testService(map[string]string{}), oneAddress()}, false},
		"EPM-8: skipped":          {with(func(e *corev1.Endpoints) { e.Labels[discoveryv1.LabelSkipMirror] = "true" }), false},
		"EPM-8: lock": {with(func(e *corev1.Endpoints) {
			e.Annotations = map[string]string{resourcelock.LeaderElectionRecordAnnotationKey: ""}
		}), false},
		"EPM-8: not skipped":                 {with(func(e *corev1.Endpoints) { e.Labels[discoveryv1.LabelSkipMirror] = "True" }), true},
		"EPM-20a, EPM-22: without addresses": {with(func(e *corev1.Endpoints) { e.Subsets = nil }), false},
	} {
		t.Run(name, func(t *testing.T) {
			foreign := sliceOf("foreign", oneAddress(), func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "x" })
			b := newBench(t, defaults, append(tc.objects, sliceOf("ours", oneAddress()), foreign)...).begin(t)
			b.MustReconcile(t)
			var got []string
			for _, s := range b.stored(t) {
				got = append(got, s.Name)
			}
			want := []string{"foreign"}
			if tc.mirrored {
				want = append(want, "ours")
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("slices are %v, want %v", got, want)
			}
			b.observed(t)
			b.MustReconcile(t)
		})
	}
}

func TestSkippedAddressesAreReported(t *testing.T) {
	few := config{concurrentSyncs: 1, maxEndpoints: 1}
	for name, tc := range map[string]struct {
		ips  []string
		want []string
	}{
		"none":            {[]string{"10.0.0.1"}, nil},
		"EPM-23: invalid": {[]string{"!", "10.0.0.1"}, []string{"Warning InvalidIPAddress Skipped 1 invalid IP addresses when mirroring to EndpointSlices"}},
		"EPM-24: too many": {[]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"},
			[]string{"Warning TooManyAddressesToMirror A max of 1 addresses can be mirrored to EndpointSlices per Endpoints subset. 2 addresses were skipped"}},
		"EPM-19: both": {[]string{"!", "10.0.0.1", "10.0.0.2"}, []string{
			"Warning InvalidIPAddress Skipped 1 invalid IP addresses when mirroring to EndpointSlices",
			"Warning TooManyAddressesToMirror A max of 1 addresses can be mirrored to EndpointSlices per Endpoints subset. 2 addresses were skipped"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, few, testService(nil), testEndpoints(subset(80, tc.ips, nil))).begin(t)
			for range 2 {
				b.MustReconcile(t)
				b.observed(t)
				if got := b.RecordedEvents(); !slices.Equal(got, tc.want) {
					t.Errorf("events are %q, want %q", got, tc.want)
				}
			}
		})
	}
}

// A decoder leaves an empty list of ports nil. Pins EPM-20b.
func TestSlicesWithoutPortsStay(t *testing.T) {
	endpoints := testEndpoints(subset(0, []string{"10.0.0.1"}, nil))
	decoded := sliceOf("found", endpoints, func(s *discoveryv1.EndpointSlice) { s.Ports = nil })
	b := newBench(t, defaults, testService(nil), endpoints, decoded).begin(t)
	b.MustReconcile(t)
	if got := b.WriteVerbs(); len(got) != 0 {
		t.Errorf("writes are %v", got)
	}
}

// Pins EPM-20b and EPM-30.
func TestUnchangedSlicesAreTracked(t *testing.T) {
	b := newBench(t, defaults, testService(nil), oneAddress(), sliceOf("found", oneAddress())).begin(t)
	b.MustReconcile(t)
	if !b.c.written.Tracker.Has(sliceOf("found", oneAddress())) || len(b.WriteVerbs()) != 0 {
		t.Errorf("the slice that was found is not tracked, or written: %v", b.WriteVerbs())
	}
}

// Pins EPM-20b and EPM-30.
func TestSliceOfRecreatedEndpointsIsTakenOver(t *testing.T) {
	old := sliceOf("old", oneAddress(func(e *corev1.Endpoints) { e.UID = "before" }))
	b := newBench(t, defaults, testService(nil), oneAddress(), old).begin(t)
	b.MustReconcile(t)
	got := b.stored(t)
	if len(got) != 1 || got[0].Name != "old" || got[0].OwnerReferences[0].UID != "endpoints" {
		t.Errorf("slices are %+v", got)
	}
}

// Pins EPM-21.
func TestEndpointsBeingDeletedGetNoNewSlices(t *testing.T) {
	both := testEndpoints(subset(80, []string{"10.0.0.1", "10.0.0.2", "fd00::1"}, nil))
	both.DeletionTimestamp, both.Finalizers = ptr.To(metav1.Now()), []string{"x/y"}
	b := newBench(t, defaults, testService(nil), both, sliceOf("a", oneAddress())).begin(t)
	b.MustReconcile(t)
	if got := b.WriteVerbs(); !slices.Equal(got, []string{"update"}) {
		t.Errorf("writes are %v, want the update alone", got)
	}
}
