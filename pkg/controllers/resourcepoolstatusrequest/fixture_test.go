package resourcepoolstatusrequest

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var epoch = controllertest.Epoch

// request asks for all pools of the driver.
func request(change ...func(*resourcev1alpha3.ResourcePoolStatusRequest)) *resourcev1alpha3.ResourcePoolStatusRequest {
	r := &resourcev1alpha3.ResourcePoolStatusRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "request", UID: "uid", ResourceVersion: "7", CreationTimestamp: metav1.NewTime(epoch)},
		Spec:       resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: driver},
	}
	for _, c := range change {
		c(r)
	}
	return r
}

func limit(n int32) func(*resourcev1alpha3.ResourcePoolStatusRequest) {
	return func(r *resourcev1alpha3.ResourcePoolStatusRequest) { r.Spec.Limit = &n }
}

func answered(conditions ...metav1.Condition) func(*resourcev1alpha3.ResourcePoolStatusRequest) {
	return func(r *resourcev1alpha3.ResourcePoolStatusRequest) {
		r.Status = &resourcev1alpha3.ResourcePoolStatusRequestStatus{PoolCount: ptr.To[int32](0), Conditions: conditions}
	}
}

// claim has devices, each named as driver/pool/device.
func claim(namespace, name string, devices ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if devices == nil {
		return c
	}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, device := range devices {
		parts := strings.Split(device, "/")
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Driver: parts[0], Pool: parts[1], Device: parts[2]})
	}
	return c
}

// fixture is a controller whose caches and whose API server hold objects. The cache of slices is of a
// higher version than any request.
func fixture(t testing.TB, objects ...runtime.Object) (*controllertest.Env, *statusController) {
	t.Helper()
	env := controllertest.New(t, objects...)
	c := must.Get(newController(env.Env))(t)
	env.EmptyCache(t, slice("p", 1, 1, 1), "100")
	env.Cache(t, objects...)
	return env, c
}

// answer reconciles the request and returns what its status was set to, nil if it was not.
func answer(t testing.TB, env *controllertest.Env, c *statusController) *resourcev1alpha3.ResourcePoolStatusRequest {
	t.Helper()
	if err := c.reconcile(env.Context(), "request"); err != nil {
		t.Fatal(err)
	}
	writes := env.Writes()
	if len(writes) == 0 {
		return nil
	}
	request := writes[0].(clienttesting.UpdateAction).GetObject().(*resourcev1alpha3.ResourcePoolStatusRequest)
	requests := []string{"update resourcepoolstatusrequests/status request"}
	if pools := request.Status.Pools; pools != nil && len(pools) == 0 {
		requests = append([]string{"list resourceslices"}, requests...)
	}
	env.WantRequests(t, requests...)
	return request
}
