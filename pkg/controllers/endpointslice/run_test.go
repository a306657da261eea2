package endpointslice

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/endpointslice/metrics"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// run runs the controller and returns what stops it and waits for it.
func (b *bench) run(t *testing.T) (stop func()) {
	t.Helper()
	b.Start(t)
	return b.Run(t, b.c)
}

// sizes returns how many endpoints each stored slice has.
func (b *bench) sizes(t *testing.T) (all []int) {
	for _, slice := range b.stored(t) {
		all = append(all, len(slice.Endpoints))
	}
	return all
}

// Pins EPS-10.
func TestRunFollowsPods(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1))
	b.run(t)
	controllertest.Eventually(t, "there is an endpoint", func() bool { s := b.sizes(t); return len(s) == 1 && s[0] == 1 })
	if err := b.Fake.Tracker().Add(testPod(2)); err != nil {
		t.Fatal(err)
	}
	// A write that the cache does not show yet costs a retry, which the fake clock delays.
	b.EventuallyAsTimePasses(t, "there are two endpoints", time.Second, func() bool {
		s := b.sizes(t)
		return len(s) == 1 && s[0] == 2
	})
}

// Cloud providers label a node after it is ready, and runs pods. Pins EPS-77.
func TestRunFollowsZones(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", ""), testPod(1))
	b.run(t)
	controllertest.Eventually(t, "there is an endpoint", func() bool { s := b.sizes(t); return len(s) == 1 && s[0] == 1 })
	b.AwaitIdle(t)
	b.Store(t, testNode("node-a", "zone-a"))
	b.EventuallyAsTimePasses(t, "the endpoint has the zone", time.Second, func() bool {
		zone := b.one(t).Endpoints[0].Zone
		return zone != nil && *zone == "zone-a"
	})
}

// The API server may refuse because of a namespace that is gone, while there is another of its name. Pins EPS-72.
func TestRunGoesOnInANamespaceThatWasMadeAnew(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1))
	ending := apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "web", errors.New("going"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	b.RefuseIf("create endpointslices", ending, func(n int) bool { return n == 1 })
	b.run(t)
	b.EventuallyAsTimePasses(t, "the slice is there", time.Second, func() bool { return len(b.stored(t)) == 1 })
	b.AwaitIdle(t)
	if n := len(b.c.inputs.creating); n != 0 {
		t.Errorf("creates of %d Services are still remembered", n)
	}
}

// Pins EPS-11c.
func TestRunRestoresASliceThatSomebodyDeletes(t *testing.T) {
	// The slice was there before the controller, which found it as it has to be.
	found := testSlice("found", func(s *discoveryv1.EndpointSlice) {
		s.Ports, s.Endpoints = []discoveryv1.EndpointPort{}, []discoveryv1.Endpoint{}
	})
	b := newBench(t, defaults, testService(), found)
	b.run(t)
	controllertest.Eventually(t, "the Service is reconciled", func() bool { return b.c.serviceLoop.Inspect().Reconciled == 1 })
	if n := len(b.Writes()); n != 0 {
		t.Fatalf("%d writes to a slice that was right", n)
	}
	if err := b.Fake.Tracker().Delete(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), "n", "found"); err != nil {
		t.Fatal(err)
	}
	b.EventuallyAsTimePasses(t, "the slice is back", minSliceDelay, func() bool {
		return len(b.stored(t)) == 1
	})
}

// A slice of whose creation there was no answer is watched like others once it is found. Pins EPS-79.
func TestRunRestoresASliceWhoseCreationHadNoAnswer(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1))
	var once sync.Once
	b.Fake.PrependReactor("create", "endpointslices", func(action clienttesting.Action) (lost bool, _ runtime.Object, _ error) {
		once.Do(func() {
			lost = true
			slice := action.(clienttesting.CreateAction).GetObject().(*discoveryv1.EndpointSlice).DeepCopy()
			slice.Name, slice.UID, slice.ResourceVersion, slice.Generation = "web-1", "web-1", "1", 1
			must.Succeed(t, b.Fake.Tracker().Add(slice))
		})
		return lost, nil, apierrors.NewTimeoutError("lost", 0)
	})
	b.run(t)
	controllertest.Eventually(t, "the cache shows the slice", func() bool { // before the next attempt, which would create another
		_, err := b.Informers.Discovery().V1().EndpointSlices().Lister().EndpointSlices("n").Get("web-1")
		return err == nil
	})
	b.EventuallyAsTimePasses(t, "the slice has been found", time.Second, func() bool {
		return b.c.serviceLoop.Inspect().Reconciled > 0 && b.Idle()
	})
	b.Remove(t, b.one(t))
	b.EventuallyAsTimePasses(t, "the slice is back", minSliceDelay, func() bool { return len(b.stored(t)) == 1 })
}

// Replayed pods, slices and nodes lead to no further reconcile. Pins EPS-67.
func TestRunReconcilesEachServiceOnceAtTheStart(t *testing.T) {
	objects := []runtime.Object{testService(), testNode("node-a", "zone-a"), testPod(1)}
	before := newBench(t, defaults, objects...).begin(t)
	before.MustReconcile(t)
	b := newBench(t, defaults, append(objects, before.one(t))...)
	b.run(t)
	loop := b.c.serviceLoop
	controllertest.Eventually(t, "the Service is reconciled", func() bool { return loop.Inspect().Reconciled > 0 && b.Idle() })
	if keys := loop.Keys(func(string) bool { return true }); len(keys) != 0 || loop.Inspect().Reconciled != 1 {
		t.Errorf("reconciled %d times, and waiting: %v", loop.Inspect().Reconciled, keys)
	}
	if got := b.WriteVerbs(); len(got) != 0 {
		t.Errorf("writes are %v", got)
	}
}

// Pins EPS-7 and EPS-16.
func TestRunGathersPodChangesForTheBatchPeriod(t *testing.T) {
	batched := defaults
	batched.batchPeriod = time.Hour
	b := newBench(t, batched, testService(), testNode("node-a", "zone-a"))
	b.run(t)
	controllertest.Eventually(t, "the placeholder is there", func() bool { return len(b.stored(t)) == 1 })
	controllertest.Eventually(t, "the Service is reconciled", func() bool { return b.c.serviceLoop.Inspect().Reconciled == 1 })
	for i := range 3 {
		if err := b.Fake.Tracker().Add(testPod(i)); err != nil {
			t.Fatal(err)
		}
	}
	// Both, since an hour is longer than a cache is waited for that does not show the placeholder.
	controllertest.Eventually(t, "the pods and the placeholder are in the cache", func() bool {
		pods, err := b.c.selected.By("n", map[string]string{"app": "web"})
		slices, errOfSlices := b.c.slices.Of("n", "web")
		return err == nil && errOfSlices == nil && len(pods) == 3 && len(slices) == 1
	})
	controllertest.Eventually(t, "the changes are mapped", func() bool {
		return b.c.podLoop.Inspect().Reconciled > 0 && b.Idle()
	})
	if n := b.c.serviceLoop.Inspect().Reconciled; n != 1 {
		t.Fatalf("the Service was reconciled %d times before the batch period was over", n)
	}
	b.EventuallyAsTimePasses(t, "all pods are written at once", batched.batchPeriod, func() bool {
		s := b.sizes(t)
		return len(s) == 1 && s[0] == 3
	})
	if n := len(b.Writes()); n != 2 {
		t.Errorf("%d writes, want the placeholder and one update", n)
	}
}

// Pins EPS-17.
func TestRunQueuesOverloadedServicesWhenNodesChange(t *testing.T) {
	b := newBench(t, defaults, testNode("node-a", "zone-a"), testNode("node-b", "zone-b"))
	b.run(t)
	controllertest.Eventually(t, "the nodes are known", func() bool { return b.c.topology.epoch.Load() == 1 })
	b.c.topology.cache.SetHints(web.String(), discoveryv1.AddressTypeIPv4, map[string]int{"zone-a": 2})
	if err := b.Fake.Tracker().Add(testNode("node-c", "zone-c")); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "the Service is reconciled", func() bool { return b.c.serviceLoop.Inspect().Reconciled == 1 })
}

// Pins EPS-15 and EPS-41.
func TestRunDropsAServiceThatFailsTooOften(t *testing.T) {
	b := newBench(t, defaults, testService())
	b.Refuse("create endpointslices", errors.New("no"))
	b.run(t)
	for n := range uint64(maxRetries) {
		controllertest.Eventually(t, "it fails", func() bool { return b.c.serviceLoop.Inspect().Reconciled > n })
		b.Clock.Step(maxRetryDelay) // not more often, since what is dropped is tried again later
	}
	controllertest.Eventually(t, "the Service is dropped after its last retry", func() bool {
		return b.c.serviceLoop.Inspect().Failed == maxRetries+1 && b.c.serviceLoop.Retries(web) == 0
	})
}

func TestNothingIsLeftAfterRun(t *testing.T) {
	b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1))
	stop := b.run(t)
	controllertest.Eventually(t, "the slice is there", func() bool { return len(b.stored(t)) == 1 })
	controllertest.Eventually(t, "the sync is over", func() bool { return b.c.serviceLoop.Inspect().Reconciled > 0 })
	if n, err := testutil.GetGaugeMetricValue(metrics.NumEndpointSlices.WithLabelValues()); err != nil || n != 1 {
		t.Errorf("num_endpoint_slices is %v (%v), want 1", n, err)
	}
	stop()
	families, err := b.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		switch family.GetName() {
		case "endpoint_slice_controller_num_endpoint_slices", "endpoint_slice_controller_desired_endpoint_slices",
			"endpoint_slice_controller_endpoints_desired", "endpoint_slice_controller_services_count_by_traffic_distribution":
			t.Errorf("%s still has a series", family.GetName())
		}
	}
	err = b.Fake.Tracker().Update(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
		testSlice(b.one(t).Name, generation(9)), "n", metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := b.c.serviceLoop.Inspect(); len(s.InFlight) != 0 {
		t.Errorf("work goes on: %+v", s)
	}
}

func TestRunThatNeverSyncsEnds(t *testing.T) {
	b := newBench(t, defaults)
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	if err := b.c.Run(ctx); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if b.Succession.HandOver() != nil {
		t.Error("an instance that never began has something to hand over")
	}
}
