package endpointslice

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	basemetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/endpointslice/metrics"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

// dualStack is a Service of both families.
func dualStack(s *corev1.Service) {
	s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
}

// dualStackPod has an address of each family.
func dualStackPod(i int, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := testPod(i, changes...)
	pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: fmt.Sprintf("fd00::%d", i+1)})
	return pod
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

// later is the Service after an edit.
func later(changes ...func(*corev1.Service)) *corev1.Service {
	return testService(append(changes, func(s *corev1.Service) { s.ResourceVersion = "2" })...)
}

// Slices with another managed-by label are those of somebody else, even if they name the Service. Pins EPS-3.
func TestSlicesAreOursByTheirLabel(t *testing.T) {
	managed := func(by string) sliceChange {
		return func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = by }
	}
	const us = "endpointslice-controller.k8s.io"
	foreign, ours := testSlice("foreign", managed("endpoint-controller")), testSlice("ours", managed(us))
	b := newBench(t, defaults, testService(), foreign, ours, testNode("node-a", "zone-a"), testPod(1)).begin(t)
	b.Requests()
	b.MustReconcile(t)
	b.WantRequests(t, "update endpointslices ours")
	b.observed(t)
	b.Uncache(t, ours)
	b.c.written.Forget(web)
	b.MustReconcile(t)
	for _, slice := range b.stored(t) {
		if slice.Name == "foreign" || slice.Name == "ours" {
			continue
		}
		if got := slice.Labels[discoveryv1.LabelManagedBy]; got != us {
			t.Errorf("managed by %q", got)
		}
	}
	b.WantRequests(t, "create endpointslices")
}

// Somebody else has taken over a slice that is to be deleted, or to be overwritten instead. Pins EPS-81.
func TestASliceThatWasTakenOverStays(t *testing.T) {
	endpoint := func(ip string) sliceChange {
		return func(s *discoveryv1.EndpointSlice) { s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{ip}}} }
	}
	taken := func(s *discoveryv1.EndpointSlice) {
		s.Labels[discoveryv1.LabelManagedBy], s.OwnerReferences, s.ResourceVersion = "somebody", nil, "2"
	}
	a, b := testSlice("a", endpoint("10.0.0.1")), testSlice("b", endpoint("10.0.0.2"))
	for name, live := range map[string]*discoveryv1.EndpointSlice{
		"one of two": testSlice("a", endpoint("10.0.0.1"), taken),
		"the other":  testSlice("b", endpoint("10.0.0.2"), taken),
	} {
		t.Run(name, func(t *testing.T) {
			bench := newBench(t, defaults, testService(), a, b).begin(t) // without pods, a placeholder remains
			bench.CheckPreconditions("endpointslices")
			bench.Store(t, live)
			bench.observed(t)
			bench.Cache(t, a, b) // it lags
			if err := bench.Reconcile(); err == nil {
				t.Error("no conflict")
			}
			stored := controllertest.MustStored[*discoveryv1.EndpointSlice](t, bench.Env, "n", live.Name)
			if got := stored.Labels[discoveryv1.LabelManagedBy]; got != "somebody" {
				t.Errorf("managed by %q", got)
			}
			for _, slice := range bench.stored(t) {
				bench.Cache(t, slice)
			}
			bench.MustReconcile(t)
			if got := controllertest.Names(bench.stored(t)); !slices.Contains(got, live.Name) {
				t.Errorf("stored are %v", got)
			}
		})
	}
}

// The library decides on slices as they were listed; by now the cache shows one that somebody else manages. Pins
// EPS-81.
func TestASliceThatTheCacheShowsToBeTakenOverIsNotWritten(t *testing.T) {
	taken := testSlice("a", func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "somebody" })
	b := newBench(t, defaults, testService(), taken).begin(t)
	b.Requests()
	client := sliceClient{b.c.Client, b.c.cached, b.c}.DiscoveryV1().EndpointSlices("n")
	overwriting := testSlice("a", func(s *discoveryv1.EndpointSlice) { s.UID, s.ResourceVersion = "", "" })
	_, updated := client.Update(t.Context(), overwriting, metav1.UpdateOptions{})
	deleted := client.Delete(t.Context(), "a", metav1.DeleteOptions{})
	for verb, err := range map[string]error{"update": updated, "delete": deleted} {
		if !apierrors.IsConflict(err) {
			t.Errorf("%s: error is %v", verb, err)
		}
	}
	b.WantRequests(t)
}

// sumOf is the sum of what a histogram of the library observed.
func sumOf(t testing.TB, of *basemetrics.HistogramVec) float64 {
	t.Helper()
	sum, err := testutil.GetHistogramMetricValue(of.WithLabelValues())
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// An endpoint that is the same is changed in its place, another one replaces it. Pins EPS-28d.
func TestIdentityOfAnEndpoint(t *testing.T) {
	two := func(first, second string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: first}, {IP: second}} }
	}
	named := func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "h", "web" }
	before := []func(*corev1.Pod){two("10.1.0.1", "10.1.0.2"), named}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		same   bool
	}{
		"readiness":             {unready, true},
		"UID":                   {func(p *corev1.Pod) { p.UID = "another" }, true},
		"node":                  {func(p *corev1.Pod) { p.Spec.NodeName = "node-b" }, true},
		"order of addresses":    {two("10.1.0.2", "10.1.0.1"), true},
		"an address":            {two("10.1.0.1", "10.1.0.3"), false},
		"an address less":       {func(p *corev1.Pod) { p.Status.PodIPs = p.Status.PodIPs[:1] }, false},
		"hostname":              {func(p *corev1.Pod) { p.Spec.Hostname = "i" }, false},
		"hostname of another":   {func(p *corev1.Pod) { p.Spec.Subdomain = "db" }, false},
		"name":                  {func(p *corev1.Pod) { p.Name = "web-2" }, false},
		"nothing that is shown": {func(p *corev1.Pod) { p.ResourceVersion = "2" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testNode("node-b", "zone-b"),
				testPod(1, before...)).begin(t)
			b.MustReconcile(t)
			b.observed(t)
			added, removed := sumOf(t, metrics.EndpointsAddedPerSync), sumOf(t, metrics.EndpointsRemovedPerSync)
			b.Uncache(t, testPod(1))
			b.Cache(t, testPod(1, append(before, tc.change)...))
			b.MustReconcile(t)
			added, removed = sumOf(t, metrics.EndpointsAddedPerSync)-added, sumOf(t, metrics.EndpointsRemovedPerSync)-removed
			got := []float64{added, removed}
			want := []float64{1, 1}
			if tc.same {
				want = []float64{0, 0}
			}
			if !slices.Equal(got, want) || len(b.one(t).Endpoints) != 1 {
				t.Errorf("added and removed are %v, want %v; stored are %+v", got, want, b.one(t).Endpoints)
			}
		})
	}
}

// A mode that is given up takes its hints along, also from slices that are not changed otherwise.
func TestHintsGoWithTheirMode(t *testing.T) {
	onB := func(p *corev1.Pod) { p.Spec.NodeName = "node-b" }
	for name, tc := range map[string]struct {
		mode func(*corev1.Service)
		want []string // events when it is given up
	}{
		"EPS-37, EPS-38: topology mode": {topologyMode,
			[]string{"Warning TopologyAwareHintsDisabled Topology Aware Hints has been disabled, addressType: IPv4"}},
		"EPS-37: traffic distribution": {func(s *corev1.Service) {
			s.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameZone)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, testService(tc.mode), testNode("node-a", "zone-a"), testNode("node-b", "zone-b"),
				testPod(1), testPod(2, onB)).begin(t)
			hinted := func() (n int) {
				for _, e := range b.one(t).Endpoints {
					if e.Hints != nil {
						n++
					}
				}
				return n
			}
			b.MustReconcile(t)
			if n := hinted(); n != 2 {
				t.Fatalf("%d endpoints have hints", n)
			}
			b.observed(t)
			b.RecordedEvents()
			b.Requests()
			b.Cache(t, later())
			b.MustReconcile(t)
			if n := hinted(); n != 0 {
				t.Errorf("%d endpoints still have hints", n)
			}
			b.WantRequests(t, "update endpointslices "+b.one(t).Name)
			b.WantEvents(t, tc.want...)
			if b.c.topology.cache.HasPopulatedHints(web.String()) {
				t.Error("the hints are remembered")
			}
		})
	}
}

// Pins EPS-45 and EPS-81.
func TestUpdatesOfSlices(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1)).begin(t)
	b.MustReconcile(t)
	b.observed(t)
	was := b.one(t)
	var sent *discoveryv1.EndpointSlice
	var refusal error
	b.Intercept("update endpointslices "+was.Name, func(action clienttesting.Action) error {
		sent = action.(clienttesting.UpdateActionImpl).Object.(*discoveryv1.EndpointSlice).DeepCopy()
		return refusal
	})

	b.Cache(t, testPod(1, unready))
	refusal = apierrors.NewConflict(discoveryv1.Resource("endpointslices"), was.Name, errors.New("old"))
	if err := b.Reconcile(); err == nil || !strings.HasSuffix(err.Error(), refusal.Error()) {
		t.Errorf("error is %v", err)
	}
	b.WantEvents(t, "Warning FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service n/web: "+
		"failed to update "+was.Name+" EndpointSlice for Service n/web: "+refusal.Error())
	if got, want := sent.ResourceVersion, was.ResourceVersion; got != want {
		t.Errorf("the update of a slice that changes is of version %q, want that of the cache, %q", got, want)
	}

	refusal = nil
	foreign := was.DeepCopy()
	foreign.Annotations["example.com/note"], foreign.Finalizers = "yes", []string{"example.com/hold"}
	another := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "c"}
	foreign.OwnerReferences = append(foreign.OwnerReferences, another)
	b.Cache(t, foreign, later(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort.IntVal = 9 }))
	b.MustReconcile(t)
	if sent.UID != was.UID || sent.ResourceVersion != was.ResourceVersion || *sent.Ports[0].Port != 9 {
		t.Errorf("the slice that is made another is sent as version %q with ports %v", sent.ResourceVersion, sent.Ports)
	}
	owners := sent.OwnerReferences
	if len(sent.Annotations) > 1 || len(owners) != 1 || owners[0].Kind != "Service" || len(sent.Finalizers) != 0 {
		t.Errorf("it keeps what is foreign: %+v", sent.ObjectMeta)
	}
}

// Pins EPS-58.
func TestRequestsOfAService(t *testing.T) {
	small := defaults
	small.maxEndpoints = 2
	b := newBench(t, small, testService(dualStack), testNode("node-a", "zone-a"),
		dualStackPod(1), dualStackPod(2), dualStackPod(3)).begin(t)
	b.Requests()
	b.MustReconcile(t)
	b.WantRequests(t, slices.Repeat([]string{"create endpointslices"}, 4)...)
	b.observed(t)
	b.Cache(t, dualStackPod(2, unready))
	b.MustReconcile(t)
	b.WantRequests(t, "update endpointslices", "update endpointslices")
}

// Whichever family comes last is the one that is counted. Pins EPS-44.
func TestGaugesCountOneFamily(t *testing.T) {
	b := newBench(t, defaults, testService(dualStack), testNode("node-a", "zone-a"),
		dualStackPod(1), dualStackPod(2)).begin(t)
	b.MustReconcile(t)
	if n := len(b.stored(t)); n != 2 {
		t.Fatalf("%d slices", n)
	}
	for metric, want := range map[string]string{
		"num_endpoint_slices": "1", "desired_endpoint_slices": "1", "endpoints_desired": "2",
	} {
		if got := b.Series(t, "endpoint_slice_controller_"+metric); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %s", metric, got, want)
		}
	}
}

// Pins EPS-40.
func TestMetrics(t *testing.T) {
	b := newBench(t, defaults, testService(func(s *corev1.Service) {
		s.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameNode)
	}), testNode("node-a", "zone-a"), testPod(1)).begin(t)
	b.MustReconcile(t)
	families, err := b.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, family := range families {
		name, ours := strings.CutPrefix(family.GetName(), "endpoint_slice_controller_")
		if !ours {
			continue
		}
		series := family.Metric[0]
		text := strings.ToLower(family.GetType().String())
		for _, label := range series.Label {
			text += " " + label.GetName()
		}
		if buckets := series.GetHistogram().GetBucket(); len(buckets) > 0 {
			text += fmt.Sprintf(" %v..%v", buckets[0].GetUpperBound(), buckets[len(buckets)-1].GetUpperBound())
		}
		stability, _, _ := strings.Cut(family.GetHelp(), " ")
		got[name] = stability + " " + text
	}
	want := map[string]string{
		"endpoints_added_per_sync":               "[BETA] histogram 2..32768",
		"endpoints_removed_per_sync":             "[BETA] histogram 2..32768",
		"endpoints_desired":                      "[BETA] gauge",
		"num_endpoint_slices":                    "[BETA] gauge",
		"desired_endpoint_slices":                "[BETA] gauge",
		"changes":                                "[ALPHA] counter operation",
		"endpointslices_changed_per_sync":        "[ALPHA] histogram topology traffic_distribution 0.005..10",
		"syncs":                                  "[ALPHA] counter result",
		"services_count_by_traffic_distribution": "[BETA] gauge traffic_distribution",
	}
	if !maps.Equal(got, want) {
		t.Errorf("metrics are\n%v, want\n%v", got, want)
	}
	queues := b.Series(t, "workqueue_adds_total")
	named := func(series string) bool { return strings.HasPrefix(series, "name=endpoint_slice ") }
	if !slices.ContainsFunc(queues, named) {
		t.Errorf("queues are %q", queues)
	}
}

// Counters are of the process, gauges of the Services that this instance has seen. Pins EPS-56.
func TestGaugesStartFromZero(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1))
	stop := b.run(t)
	controllertest.Eventually(t, "the slice is there", func() bool { return len(b.stored(t)) == 1 })
	b.AwaitIdle(t)
	stop()
	succeeded := syncs(t, "success")

	next := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1), b.one(t))
	next.Succession.Leave(b.Succession.HandOver())
	next.begin(t)
	gauge := func() []string { return next.Series(t, "endpoint_slice_controller_num_endpoint_slices") }
	if got := gauge(); len(got) != 0 {
		t.Errorf("the gauge is %q before anything was reconciled", got)
	}
	next.MustReconcile(t)
	if got := gauge(); !slices.Equal(got, []string{"1"}) {
		t.Errorf("the gauge is %q", got)
	}
	if got := syncs(t, "success"); got != succeeded+1 {
		t.Errorf("the counter is %v, want %v", got, succeeded+1)
	}
}
