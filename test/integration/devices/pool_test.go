package devices

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// poolSlice publishes a slice with devices, one of count slices of a pool, until the end of the
// test. Without a node all nodes have the devices.
func poolSlice(t *testing.T, driver, pool, node string, count int64, devices ...string) *resourcev1.ResourceSlice {
	t.Helper()
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{GenerateName: driver + "-"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: count},
		},
	}
	if node == "" {
		slice.Spec.NodeName, slice.Spec.AllNodes = nil, ptr.To(true)
	}
	for _, name := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: name})
	}
	slices := admin.ResourceV1().ResourceSlices()
	slice = must.Get(slices.Create(t.Context(), slice, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = slices.Delete(context.Background(), slice.Name, metav1.DeleteOptions{}) })
	return slice
}

// ask asks for the pools of a driver, until the end of the test.
func ask(t *testing.T, spec resourcev1alpha3.ResourcePoolStatusRequestSpec) *resourcev1alpha3.ResourcePoolStatusRequest {
	t.Helper()
	requests := admin.ResourceV1alpha3().ResourcePoolStatusRequests()
	request := must.Get(requests.Create(t.Context(), &resourcev1alpha3.ResourcePoolStatusRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "request-"}, Spec: spec,
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = requests.Delete(context.Background(), request.Name, metav1.DeleteOptions{}) })
	return request
}

func awaitAnswer(t *testing.T, name string) *resourcev1alpha3.ResourcePoolStatusRequest {
	t.Helper()
	var request *resourcev1alpha3.ResourcePoolStatusRequest
	await.That(t, "the request is answered", func(ctx context.Context) (err error) {
		request, err = admin.ResourceV1alpha3().ResourcePoolStatusRequests().Get(ctx, name, metav1.GetOptions{})
		if err == nil && request.Status == nil {
			return errors.New("it is not")
		}
		return err
	})
	return request
}

// answerTo asks, and returns the answer.
func answerTo(t *testing.T, spec resourcev1alpha3.ResourcePoolStatusRequestSpec) *resourcev1alpha3.ResourcePoolStatusRequestStatus {
	t.Helper()
	return awaitAnswer(t, ask(t, spec).Name).Status
}

// poolStatus is that of a pool of one slice.
func poolStatus(driver, pool, node string, total, allocated int32) resourcev1alpha3.PoolStatus {
	status := resourcev1alpha3.PoolStatus{
		Driver: driver, PoolName: pool, Generation: 1, ResourceSliceCount: ptr.To[int32](1), TotalDevices: &total,
		AllocatedDevices: &allocated, AvailableDevices: ptr.To(total - allocated), UnavailableDevices: ptr.To[int32](0),
	}
	if node != "" {
		status.NodeName = &node
	}
	return status
}

// Pins RPSR-6, RPSR-8, RPSR-9, RPSR-10, RPSR-11, RPSR-12, RPSR-13 and RPSR-15.
func TestPoolsAreReported(t *testing.T) {
	t.Parallel()
	const driver = "report.example.com"
	poolSlice(t, driver, "one", "node-a", 1, "a", "b", "c", "d")
	request := awaitAnswer(t, ask(t, resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: driver}).Name)
	if want := []resourcev1alpha3.PoolStatus{poolStatus(driver, "one", "node-a", 4, 0)}; *request.Status.PoolCount != 1 || !reflect.DeepEqual(request.Status.Pools, want) {
		t.Errorf("got %+v", request.Status)
	}
	if c := request.Status.Conditions[0]; len(request.Status.Conditions) != 1 || c.Type != "Complete" || c.Status != "True" || c.Reason != "CalculationComplete" || c.Message != "Calculated status for 1 pools" {
		t.Errorf("conditions are %+v", request.Status.Conditions)
	}

	for _, pool := range []string{"five", "four", "three", "two"} {
		poolSlice(t, driver, pool, "", 1, "a")
	}
	poolSlice(t, driver, "wide", "node-a", 2, "a")
	poolSlice(t, driver, "wide", "node-b", 2, "b")
	allocateFrom(t, driver, "three", "a")
	spec := resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: driver, PoolName: ptr.To("three")}
	await.That(t, "the pool has no device left", func(context.Context) error {
		if got := answerTo(t, spec); !reflect.DeepEqual(got.Pools, []resourcev1alpha3.PoolStatus{poolStatus(driver, "three", "", 1, 1)}) {
			return fmt.Errorf("got %+v", got)
		}
		return nil
	})
	spec = resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: driver, Limit: ptr.To[int32](2)}
	got := answerTo(t, spec)
	if want := []resourcev1alpha3.PoolStatus{poolStatus(driver, "five", "", 1, 0), poolStatus(driver, "four", "", 1, 0)}; *got.PoolCount != 6 || !reflect.DeepEqual(got.Pools, want) {
		t.Errorf("limited to two: %+v", got)
	}
	spec = resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: driver, PoolName: ptr.To("wide")}
	if got := answerTo(t, spec); len(got.Pools) != 1 || got.Pools[0].NodeName != nil || *got.Pools[0].TotalDevices != 2 || *got.Pools[0].ResourceSliceCount != 2 {
		t.Errorf("over two nodes: %+v", got)
	}
	if after := awaitAnswer(t, request.Name); after.ResourceVersion != request.ResourceVersion {
		t.Errorf("an answer changed to %+v", after.Status)
	}
}

// A driver that publishes its slices just before somebody asks is not told that it has none.
// Pins RPSR-32.
func TestWhoAsksAtOnceGetsAnAnswer(t *testing.T) {
	t.Parallel()
	for n := range 20 {
		driver := fmt.Sprintf("fresh-%d.example.com", n)
		poolSlice(t, driver, "pool", "", 1, "a")
		if got := answerTo(t, resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: driver}); *got.PoolCount != 1 {
			t.Errorf("driver %d has %d pools", n, *got.PoolCount)
		}
	}
	if got := answerTo(t, resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: "unknown.example.com"}); *got.PoolCount != 0 || got.Pools != nil || got.Conditions[0].Type != "Complete" {
		t.Errorf("an unknown driver has %+v", got)
	}
}

// Pins RPSR-14 and RPSR-31.
func TestARequestWaitsForTheLastSliceOfAPool(t *testing.T) {
	t.Parallel()
	const driver = "incomplete.example.com"
	poolSlice(t, driver, "pool", "", 2, "a")
	waits := ask(t, resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: driver})
	// What is asked later is answered before, since there is one worker.
	answerTo(t, resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: "unknown.example.com"})
	if request := must.Get(admin.ResourceV1alpha3().ResourcePoolStatusRequests().Get(t.Context(), waits.Name, metav1.GetOptions{}))(t); request.Status != nil {
		t.Fatalf("answered with %+v", request.Status)
	}
	poolSlice(t, driver, "pool", "", 2, "b")
	if got := awaitAnswer(t, waits.Name).Status; *got.PoolCount != 1 || *got.Pools[0].TotalDevices != 2 || got.Pools[0].ValidationError != nil {
		t.Errorf("answered with %+v", got)
	}
}

// Pins RPSR-6 and RPSR-17.
func TestAnswersGoAfterAnHour(t *testing.T) {
	const driver = "expiry.example.com"
	poolSlice(t, driver, "incomplete", "", 2, "a")
	pending := ask(t, resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: driver})
	old := awaitAnswer(t, ask(t, resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: "unknown.example.com"}).Name)
	manager.Join(t, cluster.ControlPlane, runtime.Options{Clock: harness.ShiftedClock(2 * time.Hour)},
		harness.All(harness.WithoutLease, func(c *manager.Config) { c.FeatureGates = gates }, harness.Only(func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.ResourcePoolStatusRequest.Enabled}
		})))
	requests := admin.ResourceV1alpha3().ResourcePoolStatusRequests()
	await.That(t, "the answer is gone", func(ctx context.Context) error {
		if _, err := requests.Get(ctx, old.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	must.Get(requests.Get(t.Context(), pending.Name, metav1.GetOptions{}))(t)
}

// allocateFrom allocates a device to a claim, as a scheduler would.
func allocateFrom(t *testing.T, driver, pool, device string) {
	t.Helper()
	claims := admin.ResourceV1().ResourceClaims(cluster.Namespace(t))
	claim := must.Get(claims.Create(t.Context(), &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "request", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "any"},
		}}}},
	}, metav1.CreateOptions{}))(t)
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "request", Driver: driver, Pool: pool, Device: device}},
	}}
	must.Get(claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}))(t)
}
