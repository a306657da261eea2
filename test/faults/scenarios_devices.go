package faults

import (
	"context"
	"fmt"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

var (
	slicesOfDevices = resourcev1.SchemeGroupVersion.WithResource("resourceslices")
	deviceClaims    = resourcev1.SchemeGroupVersion.WithResource("resourceclaims")
	poolRequests    = resourcev1alpha3.SchemeGroupVersion.WithResource("resourcepoolstatusrequests")
)

const devicePool = "pool"

// useDevice creates a pod on a node with a claim of the same name, and does what the scheduler does: the pod gets
// a device. The claim tolerates taints as its request says. The pod may have finalizers.
func useDevice(name, device, tolerations string, finalizers ...string) Action {
	return func(ctx context.Context, w *world) error {
		err := Create(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: `+name+`}
spec: {devices: {requests: [{name: device, exactly: {deviceClassName: faults, tolerations: [`+tolerations+`]}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: `+name+`, finalizers: [`+strings.Join(finalizers, ", ")+`]}
spec:
  nodeName: node-a
  terminationGracePeriodSeconds: 0
  resourceClaims: [{name: device, resourceClaimName: `+name+`}]
  containers: [{name: web, image: "web:1", resources: {claims: [{name: device}]}}]
`)(ctx, w)
		if err != nil {
			return err
		}
		pod, err := w.admin.CoreV1().Pods(w.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		claim, err := w.admin.ResourceV1().ResourceClaims(w.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		result := resourcev1.DeviceRequestAllocationResult{Request: "device", Driver: csiDriver, Pool: devicePool, Device: device}
		result.Tolerations = claim.Spec.Devices.Requests[0].Exactly.Tolerations
		claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{result}}}
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
		_, err = w.admin.ResourceV1().ResourceClaims(w.namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		return err
	}
}

// poolStatus answers requests about the pools of drivers. Answers are deleted after an hour, requests without one
// after a day, in passes that are ten minutes apart.
func poolStatus() Scenario {
	// slice is one of several of a pool.
	slice := func(name, driver, pool string, of int) Action {
		return Create(fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: %s}
spec: {driver: %s, allNodes: true, pool: {name: %s, generation: 1, resourceSliceCount: %d}, devices: [{name: %s-0}, {name: %s-1}]}
`, name, driver, pool, of, name, name))
	}
	request := func(name, driver string) Action {
		return Create(fmt.Sprintf("{apiVersion: resource.k8s.io/v1alpha3, kind: ResourcePoolStatusRequest, metadata: {name: %s}, spec: {driver: %s}}", name, driver))
	}
	answered := func(name, total, allocated string) Condition {
		return Has("resourcepoolstatusrequests", name, "{.status.conditions[?(@.type=='Complete')].status}", "True",
			"{.status.pools[*].totalDevices}", total, "{.status.pools[*].allocatedDevices}", allocated)
	}
	gone := func(name string) Condition {
		return InTime(10*time.Minute, Gone("resourcepoolstatusrequests", name))
	}
	const other = "other.example.com"
	return Scenario{
		Name: "resourcepoolstatusrequest",
		Bare: true,
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.ResourcePoolStatusRequest.Enabled}
		},
		Configure: func(c *manager.Config) { c.FeatureGates = map[string]bool{"DRAResourcePoolStatus": true} },
		Leaps:     true,
		Kinds:     []schema.GroupVersionResource{poolRequests, slicesOfDevices, deviceClaims, pods},
		Steps: []Step{
			{"use a device", []Action{slice("first", csiDriver, devicePool, 1), useDevice("user", "first-0", "")}, []Condition{Seen("resourceslices", "first"), Seen("resourceclaims", "user")}},
			{
				"ask for pools, also as soon as they are published",
				[]Action{request("known", csiDriver), slice("second", other, "whole", 1), request("fresh", other), request("none", "unknown.example.com")},
				[]Condition{answered("known", "2", "1"), answered("fresh", "2", "0"), answered("none", "", "")},
			},
			{"ask for a pool that is not complete", []Action{slice("third", "late.example.com", "half", 2), request("waits", "late.example.com")}, nil},
			{"complete it", []Action{slice("fourth", "late.example.com", "half", 2)}, []Condition{answered("waits", "4", "0"), Seen("resourceclaims", "user")}},
			{
				"ask again under the name",
				[]Action{Delete("resourcepoolstatusrequests", "known", metav1.DeletePropagationBackground), request("known", csiDriver)},
				[]Condition{answered("known", "2", "1")},
			},
			{
				"let an hour pass",
				[]Action{slice("fifth", "never.example.com", "half", 2), request("pending", "never.example.com"), Pass(70 * time.Minute)},
				[]Condition{gone("known"), gone("fresh"), gone("none"), gone("waits")},
			},
			{"let a day pass", []Action{Check(Count("resourcepoolstatusrequests", "", 1)), Pass(24 * time.Hour)}, []Condition{gone("pending")}},
		},
	}
}

func deviceTaintEviction() Scenario {
	const broken = `{"key":"broken","effect":"NoExecute"}`
	const tolerated = "{key: broken, operator: Exists, effect: NoExecute"
	devices := func(first, second string) Action {
		return Patch("resourceslices", "faults-slice", `{"spec":{"devices":[{"name":"device-0","taints":[`+first+`]},{"name":"device-1","taints":[`+second+`]}]}}`)
	}
	return Scenario{
		Name:        "device-taint-eviction",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.DeviceTaintEviction.Enabled} },
		Clock:       fast,
		Kinds:       []schema.GroupVersionResource{slicesOfDevices, deviceClaims, nodes, pods},
		Steps: []Step{
			{
				"run pods with devices",
				[]Action{
					Node("node-a"),
					Create(`
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: faults-slice}
spec: {driver: ` + csiDriver + `, allNodes: true, pool: {name: ` + devicePool + `, generation: 1, resourceSliceCount: 1}, devices: [{name: device-0}, {name: device-1}]}
`),
					useDevice("at-once", "device-0", ""), useDevice("later", "device-0", tolerated+", tolerationSeconds: 16}"),
					useDevice("never", "device-0", tolerated+"}"), useDevice("elsewhere", "device-1", ""),
				},
				[]Condition{Count("pods", "", 4)},
			},
			{"break a device", []Action{devices(broken, "")}, []Condition{Gone("pods", "at-once"), Gone("pods", "later")}},
			{"repair it, and break the other one", []Action{useDevice("canceled", "device-0", tolerated+", tolerationSeconds: 3600}"), devices("", broken)}, []Condition{Gone("pods", "elsewhere"), Count("pods", "", 2)}},
		},
	}
}
