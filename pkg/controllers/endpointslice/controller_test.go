package endpointslice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/services/slicewrites"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
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
	b.c.written.Stale(b.Context(), web, nil) // it lacks the slice that was found
	b.MustReconcile(t)
	_, awaited := b.c.written.Awaited(testSlice("left"))
	if b.c.inputs.upToDate(web, 1) || b.c.topology.cache.HasPopulatedHints(web.String()) ||
		len(b.c.triggers.ServiceStates) != 0 || b.c.written.Tracker.Has(testSlice("left")) || awaited {
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

// Pins EPS-28a.
func TestNamedPortsThatResolveDifferentlyMakeTwoSlices(t *testing.T) {
	port := func(number int32) []corev1.ContainerPort {
		return []corev1.ContainerPort{{Name: "web", ContainerPort: number, Protocol: corev1.ProtocolTCP}}
	}
	sidecar := func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Ports: port(2)}}
	}
	b := newBench(t, defaults,
		testService(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("web") }), testNode("node-a", "zone-a"),
		testPod(1, func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{{Ports: port(1)}} }), testPod(2, sidecar)).begin(t)
	b.MustReconcile(t)
	var got []string
	for _, slice := range b.stored(t) {
		got = append(got, fmt.Sprintf("%s:%d", slice.Endpoints[0].TargetRef.Name, *slice.Ports[0].Port))
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"web-1:1", "web-2:2"}) {
		t.Errorf("slices are %v", got)
	}
}

// Pins EPS-6 and EPS-29c.
func TestSlicesHoldAtMostMaxEndpoints(t *testing.T) {
	objects := []runtime.Object{testService(), testNode("node-a", "zone-a")}
	for i := range 7 {
		objects = append(objects, testPod(i))
	}
	b := newBench(t, config{concurrentSyncs: 1, maxEndpoints: 3, preferSame: true}, objects...).begin(t)
	b.MustReconcile(t)
	if n := len(b.stored(t)); n != 3 {
		t.Errorf("%d slices, want 3", n)
	}
}

// packed is a Service whose five pods are in a slice of four and one of one.
func packed(t *testing.T) (b *bench, full, other *discoveryv1.EndpointSlice) {
	t.Helper()
	objects := []runtime.Object{testService(), testNode("node-a", "zone-a")}
	for i := range 5 {
		objects = append(objects, testPod(i))
	}
	b = newBench(t, config{concurrentSyncs: 1, maxEndpoints: 4, preferSame: true}, objects...).begin(t)
	b.MustReconcile(t)
	b.observed(t)
	b.Requests()
	stored := b.stored(t)
	if len(stored) == 2 && len(stored[0].Endpoints) < len(stored[1].Endpoints) {
		slices.Reverse(stored)
	}
	if len(stored) != 2 || len(stored[0].Endpoints) != 4 || len(stored[1].Endpoints) != 1 {
		t.Fatalf("stored are %+v", stored)
	}
	return b, stored[0], stored[1]
}

// podOf is the pod of an endpoint, by its number in the slice.
func podOf(t *testing.T, slice *discoveryv1.EndpointSlice, n int, changes ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	var i int
	if _, err := fmt.Sscanf(slice.Endpoints[n].TargetRef.Name, "web-%d", &i); err != nil {
		t.Fatal(err)
	}
	return testPod(i, changes...)
}

// endpointsOf are the numbers of endpoints of the stored slices, by their names.
func (b *bench) endpointsOf(t *testing.T) map[string]int {
	t.Helper()
	sizes := map[string]int{}
	for _, slice := range b.stored(t) {
		sizes[slice.Name] = len(slice.Endpoints)
	}
	return sizes
}

func TestSlicesChangeAsLittleAsPossible(t *testing.T) {
	toPort := func(port int32) *corev1.Service {
		return testService(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(port) })
	}
	for name, test := range map[string]struct {
		change      func(b *bench, full, other *discoveryv1.EndpointSlice)
		full, other int    // how many endpoints the slices have then, -1 without slice
		fullWritten string // the verb, none if it stays as it is
		alsoWritten string // the verb for the other one
	}{
		"EPS-29a: a pod goes": {func(b *bench, full, _ *discoveryv1.EndpointSlice) {
			b.Uncache(t, podOf(t, full, 0))
		}, 3, 1, "update", ""},
		"EPS-29a: a pod changes": {func(b *bench, _, other *discoveryv1.EndpointSlice) {
			b.Cache(t, podOf(t, other, 0, unready))
		}, 4, 1, "", "update"},
		"EPS-29a: a slice is empty": {func(b *bench, _, other *discoveryv1.EndpointSlice) {
			b.Uncache(t, podOf(t, other, 0))
		}, 4, -1, "", "delete"},
		"EPS-29b: the fullest that is written is filled": {func(b *bench, full, other *discoveryv1.EndpointSlice) {
			b.Uncache(t, podOf(t, full, 0))
			b.Cache(t, podOf(t, other, 0, unready), testPod(8))
		}, 4, 1, "update", "update"},
		"EPS-29d: slices that would fit into one stay": {func(b *bench, full, _ *discoveryv1.EndpointSlice) {
			b.Uncache(t, podOf(t, full, 0), podOf(t, full, 1), podOf(t, full, 2))
		}, 1, 1, "update", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b, full, other := packed(t)
			test.change(b, full, other)
			b.MustReconcile(t)
			want := map[string]int{full.Name: test.full}
			if test.other >= 0 {
				want[other.Name] = test.other
			}
			if got := b.endpointsOf(t); !maps.Equal(got, want) {
				t.Errorf("the slices have %v endpoints, want %v", got, want)
			}
			var requests []string
			for slice, verb := range map[string]string{full.Name: test.fullWritten, other.Name: test.alsoWritten} {
				if verb != "" {
					requests = append(requests, verb+" endpointslices "+slice)
				}
			}
			b.WantRequestsInAnyOrder(t, requests...)
			b.observed(t)
			b.MustReconcile(t)
			b.WantRequests(t)
		})
	}
	t.Run("EPS-30: of other ports", func(t *testing.T) {
		b, full, other := packed(t)
		b.Uncache(t, podOf(t, other, 0))
		b.Cache(t, toPort(9))
		b.MustReconcile(t)
		slice := b.one(t) // under the name of one of them, see EPS-33
		if *slice.Ports[0].Port != 9 || len(slice.Endpoints) != 4 || slice.Name != full.Name && slice.Name != other.Name {
			t.Errorf("stored is %+v", slice)
		}
		b.WantRequests(t, "update endpointslices", "delete endpointslices")
	})
}

// unindexed is an informer that refuses indexes, as one does that has stopped.
type unindexed struct{ cache.SharedIndexInformer }

func (unindexed) AddIndexers(cache.Indexers) error { return errors.New("it has stopped") }

func TestCachesThatCannotBeLookedUp(t *testing.T) {
	broken := unindexed{cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{})}
	for name, test := range map[string]struct {
		breakIt func(*endpointSliceController)
		event   string
	}{
		"EPS-21, EPS-39: pods": {func(c *endpointSliceController) { c.selected = index.NewSelectedPods(broken) },
			"Warning FailedToListPods Error listing Pods for Service n/web: "},
		"EPS-21, EPS-39: slices": {func(c *endpointSliceController) { c.slices = index.NewEndpointSlices(broken) },
			"Warning FailedToListEndpointSlices Error listing Endpoint Slices for Service n/web: "},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1)).begin(t)
			test.breakIt(b.c)
			if err := b.Reconcile(); err == nil || reconcile.IsExpected(err) {
				t.Errorf("error is %v", err)
			}
			if events := b.RecordedEvents(); len(events) != 1 || !strings.HasPrefix(events[0], test.event) {
				t.Errorf("events are %q, want %s...", events, test.event)
			}
			if writes := b.WriteVerbs(); len(writes) != 0 {
				t.Errorf("writes are %v", writes)
			}
		})
	}
}

// Pins EPS-28b.
func TestPodOnUnknownNodeIsSkippedAndRetried(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1),
		testPod(2, func(p *corev1.Pod) { p.Spec.NodeName = "node-b" })).begin(t)
	err := b.Reconcile()
	if err == nil || !strings.Contains(err.Error(), "skipping Pod web-2 for Service n/web: Node node-b Not Found") {
		t.Fatalf("error is %v", err)
	}
	if n := len(b.one(t).Endpoints); n != 1 {
		t.Errorf("%d endpoints, want that of the other pod", n)
	}
	b.observed(t)
	b.Cache(t, testNode("node-b", "zone-b"))
	b.MustReconcile(t)
	if n := len(b.one(t).Endpoints); n != 2 {
		t.Errorf("%d endpoints once the node is known, want 2", n)
	}
}

// Pins EPS-25.
func TestFailedWriteIsReportedAndTriedAgain(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1)).begin(t)
	failing := true
	b.Fake.PrependReactor("create", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		return failing, nil, errors.New("no")
	})
	failed := syncs(t, "error")
	if err := b.Reconcile(); err == nil || reconcile.IsExpected(err) {
		t.Fatalf("error is %v", err)
	}
	want := "Warning FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service n/web: failed to create EndpointSlice for Service n/web: no"
	b.WantEvents(t, want)
	if syncs(t, "error") != failed+1 {
		t.Error("the sync was not counted as error")
	}
	failing = false
	b.MustReconcile(t)
	b.one(t)
}

// The library sends requests without a context, so that they fail at the fence. Pins EPS-25.
func TestAWriteThatIsCutOffIsNotReported(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1)).begin(t)
	ctx, end := context.WithCancel(b.Context())
	b.Intercept("create endpointslices", func(clienttesting.Action) error {
		end()
		return context.Canceled
	})
	if err := b.Work(ctx, web); err == nil {
		t.Error("it succeeds")
	}
	b.WantEvents(t)
}

// Pins EPS-33.
func TestTerminatingNamespaceEndsTheWork(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1)).begin(t)
	refusal := apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "", errors.New("terminating"))
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	b.Refuse("create endpointslices", refusal)
	b.MustReconcile(t)
	if events := b.RecordedEvents(); len(events) != 0 {
		t.Errorf("events are %q", events)
	}
}

// Pins EPS-83.
func TestACreatedSliceIsLookedForLater(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1))
	queue := &controllertest.Queue[types.NamespacedName]{}
	b.c.serviceQueue = queue
	b.begin(t)
	for _, created := range []bool{true, false} {
		b.MustReconcile(t)
		if got := slices.Contains(queue.Take(), "n/web in 10s"); got != created { // the handler may queue it, too
			t.Errorf("queued for later: %v, want %v", got, created)
		}
		b.observed(t)
	}
}

// What delays it is the backoff. Pins EPS-15 and EPS-83.
func TestASliceThatCouldNotBeCreatedIsNotLookedFor(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1))
	queue := &controllertest.Queue[types.NamespacedName]{}
	b.c.serviceQueue = queue
	b.begin(t)
	b.Refuse("create endpointslices", apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "s", errors.New("exceeded quota")))
	queue.Take()
	if err := b.Reconcile(); err == nil {
		t.Fatal("it was created")
	}
	if got := queue.Take(); slices.Contains(got, "n/web in 10s") {
		t.Errorf("queued are %q", got)
	}
}

// The cache has missed both that a slice was created and that it was deleted. Pins EPS-84.
func TestASliceThatTheCacheNeverShows(t *testing.T) {
	for name, tc := range map[string]struct {
		deleted bool
		version string // of the cache
		want    []string
	}{
		"it is gone":            {deleted: true, version: "9999", want: []string{"create"}},
		"the cache is behind":   {deleted: true, version: "1"},
		"the cache is deceived": {version: "9999"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults)
			b.Cache(t, testService(), testNode("node-a", "zone-a"), testPod(1))
			must.Succeed(t, b.c.begin(b.Context()))
			b.EmptyCache(t, testSlice("none"), "1")
			b.MustReconcile(t)
			if created := b.one(t); tc.deleted {
				must.Succeed(t, b.Fake.Tracker().Delete(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), "n", created.Name))
			}
			b.Fake.ClearActions()
			b.EmptyCache(t, testSlice("none"), tc.version)
			if err := b.Reconcile(); (err == nil) != (tc.want != nil) || err != nil && !errors.Is(err, slicewrites.ErrStaleCache) {
				t.Errorf("error is %v", err)
			}
			if got := b.WriteVerbs(); !slices.Equal(got, tc.want) {
				t.Errorf("writes are %v, want %v", got, tc.want)
			}
		})
	}
}

// TestNothingIsMovedIntoASliceThatMayBeGone: the cache shows two slices with the same endpoint, one of which was
// deleted without an answer. Pins EPS-85.
func TestNothingIsMovedIntoASliceThatMayBeGone(t *testing.T) {
	for name, executed := range map[string]bool{"it is gone": true, "it was not deleted": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults)
			b.Cache(t, testService(), testNode("node-a", "zone-a"), testPod(1))
			must.Succeed(t, b.c.begin(b.Context()))
			b.MustReconcile(t)
			one := b.one(t)
			another := one.DeepCopy()
			another.Name, another.UID = "another", "another"
			must.Succeed(t, b.Fake.Tracker().Add(another))
			b.Cache(t, one, another)
			b.Fake.PrependReactor("delete", "endpointslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if executed {
					deleted := action.(clienttesting.DeleteAction).GetName()
					must.Succeed(t, b.Fake.Tracker().Delete(action.GetResource(), "n", deleted))
				}
				return true, nil, io.ErrUnexpectedEOF
			})
			b.Fake.ClearActions()
			if err := b.Reconcile(); err == nil || !slices.Equal(b.WriteVerbs(), []string{"delete"}) {
				t.Fatalf("error is %v after %v", err, b.WriteVerbs())
			}
			b.Fake.ClearActions()
			if err := b.Reconcile(); errors.Is(err, slicewrites.ErrStaleCache) != executed {
				t.Errorf("error is %v", err)
			}
			if wrote := len(b.WriteVerbs()) > 0; wrote == executed {
				t.Errorf("writes are %v", b.WriteVerbs())
			}
		})
	}
}

// Pins EPS-18, EPS-23 and EPS-24.
func TestStaleCacheIsNotActedOn(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1)).begin(t)
	b.c.written.Tracker.Update(testSlice("written")) // which the cache lacks
	stale := syncs(t, "stale")
	err := b.Reconcile()
	if !reconcile.IsExpected(err) || err.Error() != "EndpointSlice informer cache is out of date" {
		t.Fatalf("error is %v", err)
	}
	if syncs(t, "stale") != stale+1 || len(b.RecordedEvents()) != 0 || len(b.Writes()) != 0 {
		t.Error("a stale cache must be counted as stale, without event and write")
	}
	if len(b.c.triggers.ServiceStates) != 0 {
		t.Error("the times of the last changes were taken")
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

// A slice is deleted before the answer to its creation comes. The inputs are those on which it was created, and no
// inputs that need no writes. Pins EPS-64.
func TestSliceThatIsDeletedBeforeTheAnswerIsCreatedAgain(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1)).begin(t)
	var once sync.Once
	created := testSlice("web-1")
	b.Fake.PrependReactor("create", "endpointslices", func(clienttesting.Action) (first bool, _ runtime.Object, _ error) {
		once.Do(func() {
			first = true
			b.c.sliceFuncs().Add(reconcile.Fresh, created)
			b.c.sliceFuncs().Delete(created)
		})
		return first, created, nil
	})
	b.Requests()
	b.MustReconcile(t)
	b.MustReconcile(t)
	b.one(t)
	b.WantRequests(t, "create endpointslices", "create endpointslices")
}

// Pins EPS-63.
func TestTopologyModeNeedsTheNodesFirst(t *testing.T) {
	service := testService(func(s *corev1.Service) { s.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto"} })
	onB := func(p *corev1.Pod) { p.Spec.NodeName = "node-b" }
	b := newBench(t, defaults, service, testNode("node-a", "zone-a"), testNode("node-b", "zone-b"), testPod(1), testPod(2, onB)).begin(t)
	b.MustReconcile(t)
	for _, e := range b.one(t).Endpoints {
		if e.Hints == nil || len(e.Hints.ForZones) != 1 {
			t.Errorf("%s has no hint", e.TargetRef.Name)
		}
	}
	want := []string{"Normal TopologyAwareHintsEnabled Topology Aware Hints has been enabled, addressType: IPv4"}
	if events := b.RecordedEvents(); !slices.Equal(events, want) {
		t.Errorf("events are %q", events)
	}
}

// Hints that were removed because no Service could have any return when Services can. Pins EPS-76.
func TestHintsReturnWithTheZones(t *testing.T) {
	onB := func(p *corev1.Pod) { p.Spec.NodeName = "node-b" }
	unready := testNode("node-b", "zone-b")
	unready.Status.Conditions[0].Status = corev1.ConditionFalse
	deprecated := func(s *corev1.Service) {
		s.Annotations = map[string]string{corev1.DeprecatedAnnotationTopologyAwareHints: "auto"}
	}
	off := func(s *corev1.Service) {
		topologyMode(s)
		s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints] = "Disabled"
	}
	for name, tc := range map[string]struct {
		mode func(*corev1.Service)
		node *corev1.Node // while there are no hints
		want int          // 1 if the Service is reconciled when there is a second zone
	}{
		"a node without zone":                   {topologyMode, testNode("node-b", ""), 1},
		"a zone without ready nodes":            {topologyMode, unready, 1},
		"the deprecated annotation":             {deprecated, unready, 1},
		"the deprecated annotation comes first": {off, unready, 0},
		"not in topology mode":                  {func(*corev1.Service) {}, unready, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, testService(tc.mode), testNode("node-a", "zone-a"), tc.node,
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
			b.observed(t)
			if n := hinted(); n != 0 {
				t.Fatalf("%d endpoints have hints", n)
			}
			b.Cache(t, testNode("node-b", "zone-b"))
			want := slices.Repeat([]types.NamespacedName{web}, tc.want)
			if got, err := b.c.examineNodes(t.Context()); err != nil || !slices.Equal(got, want) {
				t.Fatalf("Services to reconcile are %v, want %v, and %v", got, want, err)
			}
			if got, err := b.c.examineNodes(t.Context()); err != nil || len(got) != 0 {
				t.Errorf("when nothing changed, Services to reconcile are %v, and %v", got, err)
			}
			b.MustReconcile(t)
			if n := hinted(); n != 2*tc.want {
				t.Errorf("%d endpoints have hints, want %d", n, 2*tc.want)
			}
		})
	}
}

// Pins EPS-68.
func TestTrafficDistributionWithoutItsGate(t *testing.T) {
	cfg := v1beta1.NewDefault()
	cfg.EmulatedVersion = "1.33" // off by default there
	b := newBench(t, Descriptor().Value(cfg).(config), testService(func(s *corev1.Service) {
		s.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameNode)
	}), testNode("node-a", "zone-a"), testPod(1)).begin(t)
	b.MustReconcile(t)
	if got := b.one(t); got.Endpoints[0].Hints != nil {
		t.Errorf("hints are %+v", got.Endpoints[0].Hints)
	}
}

// The slice is created with its hints. Pins EPS-4, EPS-32 and EPS-36.
func TestPreferSameNodeIsHonoured(t *testing.T) {
	service := testService(func(s *corev1.Service) {
		s.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameNode)
	})
	b := newBench(t, defaults, service, testNode("node-a", "zone-a"), testPod(1)).begin(t)
	b.MustReconcile(t)
	hints := b.one(t).Endpoints[0].Hints
	if hints == nil || len(hints.ForNodes) != 1 || hints.ForNodes[0].Name != "node-a" {
		t.Errorf("hints are %+v", hints)
	}
	if got := b.WriteVerbs(); !slices.Equal(got, []string{"create"}) {
		t.Errorf("writes are %v, want one", got)
	}
}
