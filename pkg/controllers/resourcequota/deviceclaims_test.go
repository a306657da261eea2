package resourcequota

import (
	"math"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

const (
	exactly = resourcev1.DeviceAllocationModeExactCount
	all     = resourcev1.DeviceAllocationModeAll
)

func claim(name string, requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{}
	c.Namespace, c.Name, c.CreationTimestamp = "ns", name, metav1.NewTime(now)
	c.Spec.Devices.Requests = requests
	return c
}

func devices(class string, mode resourcev1.DeviceAllocationMode, count int64) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: mode, Count: count}}
}

// firstOf is a request with alternatives.
func firstOf(alternatives ...resourcev1.DeviceSubRequest) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{FirstAvailable: alternatives}
}

func alternative(class string, count int64) resourcev1.DeviceSubRequest {
	return resourcev1.DeviceSubRequest{DeviceClassName: class, AllocationMode: exactly, Count: count}
}

// Pins QUOTA-57.
func TestDeviceClaimUsage(t *testing.T) {
	const gpus, nics = " gpu.deviceclass.resource.k8s.io/devices=", " nic.deviceclass.resource.k8s.io/devices="
	administrated := devices("gpu", exactly, 2)
	administrated.Exactly.AdminAccess = ptr.To(true)
	unlimited := alternative("gpu", 0)
	unlimited.AllocationMode = all
	for name, test := range map[string]struct {
		claim *resourcev1.ResourceClaim
		want  string
	}{
		"of nothing":                          {claim("c"), ""},
		"of devices":                          {claim("c", devices("gpu", exactly, 2)), gpus + "2"},
		"of all devices":                      {claim("c", devices("gpu", all, 0)), gpus + "32"},
		"in an unknown mode":                  {claim("c", devices("gpu", "Some", 2)), gpus + "0"},
		"of more devices":                     {claim("c", devices("gpu", exactly, 2), devices("gpu", exactly, 1), devices("nic", exactly, 1)), gpus + "3" + nics + "1"},
		"with administrative access":          {claim("c", administrated), gpus + "2"},
		"the most of the alternatives":        {claim("c", firstOf(alternative("gpu", 2), alternative("gpu", 1), alternative("nic", 1))), gpus + "2" + nics + "1"},
		"alternatives, one of them all":       {claim("c", firstOf(alternative("gpu", 2), unlimited)), gpus + "32"},
		"alternatives, and others":            {claim("c", firstOf(alternative("gpu", 2)), firstOf(alternative("gpu", 1))), gpus + "3"},
		"a form of request that is not known": {claim("c", resourcev1.DeviceRequest{}), ""},
		"more devices than an integer holds":  {claim("c", devices("gpu", exactly, math.MaxInt64), firstOf(alternative("gpu", math.MaxInt64))), gpus + "18446744073709551614"},
	} {
		t.Run(name, func(t *testing.T) {
			wantList(t, deviceClaimUsage(devicesByClass(test.claim)), "count/resourceclaims.resource.k8s.io=1"+test.want)
		})
	}
}

// classes are device classes, with the extended resource that each backs.
type classes map[string]string

func (c classes) areBehind(name corev1.ResourceName) bool {
	for class, backed := range c {
		if string(name) == backed || string(name) == resourcev1.ResourceDeviceClassPrefix+class {
			return true
		}
	}
	return false
}

func (c classes) resourceOf(class string) string { return c[class] }

// Pins QUOTA-57.
func TestLimitsDeviceClaim(t *testing.T) {
	known := classes{"gpu": "example.com/gpu", "nic": "", "odd": "kubernetes.io/odd"}
	for name, want := range map[corev1.ResourceName]struct{ always, extended bool }{
		"count/resourceclaims.resource.k8s.io":             {true, true},
		"any.deviceclass.resource.k8s.io/devices":          {true, true},
		"requests.deviceclass.resource.kubernetes.io/gpu":  {false, true},
		"requests.deviceclass.resource.kubernetes.io/nic":  {false, true},
		"requests.deviceclass.resource.kubernetes.io/none": {false, false},
		"requests.example.com/gpu":                         {false, true},
		"requests.example.com/other":                       {false, false},
		"requests.kubernetes.io/odd":                       {false, false},
		"example.com/gpu":                                  {false, false},
		"count/resourceclaims":                             {false, false},
	} {
		for extended, want := range map[bool]bool{false: want.always, true: want.extended} {
			var backing deviceClasses
			if extended {
				backing = known
			}
			d := newDeviceClaims(nil, backing, nil, features{})
			if got := d.limits(name); got != want {
				t.Errorf("%s: %v, want %v (extended resources: %v)", name, got, want, extended)
			}
		}
	}
}

// madeForPod makes a claim one that was made for the extended resources of a pod.
func madeForPod(c *resourcev1.ResourceClaim, name string, uid types.UID) *resourcev1.ResourceClaim {
	owner := &metav1.ObjectMeta{Name: name, UID: uid}
	c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("Pod"))}
	c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	return c
}

// naming makes a pod one whose status names its claim.
func naming(claim string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: claim}
	}
}

func TestExtendedResourcesOfClaims(t *testing.T) {
	known := classes{"gpu": "example.com/gpu", "nic": ""}
	const plain = "count/resourceclaims.resource.k8s.io=1 gpu.deviceclass.resource.k8s.io/devices=3 requests.deviceclass.resource.kubernetes.io/gpu=3 "
	const whole, part = plain + "requests.example.com/gpu=3", plain + "requests.example.com/gpu=1"
	asking := with(container("c", "example.com/gpu=2", ""))
	gpus := func(name string) *resourcev1.ResourceClaim { return claim(name, devices("gpu", exactly, 3)) }
	older := madeForPod(gpus("z"), "pod", "pod")
	older.CreationTimestamp = metav1.NewTime(now.Add(-time.Second))
	unannotated := madeForPod(gpus("c"), "pod", "pod")
	unannotated.Annotations = nil
	ofAnother := madeForPod(gpus("c"), "pod", "pod")
	ofAnother.OwnerReferences[0].Kind = "Node"
	owned := madeForPod(gpus("c"), "pod", "pod")
	owned.OwnerReferences[0].Controller = nil
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		claim  *resourcev1.ResourceClaim
		others []*resourcev1.ResourceClaim
		want   string
	}{
		"QUOTA-58: a claim of its own":                            {claim: gpus("c"), want: whole},
		"QUOTA-58: a class without an extended resource":          {claim: claim("c", devices("nic", exactly, 1)), want: "count/resourceclaims.resource.k8s.io=1 nic.deviceclass.resource.k8s.io/devices=1 requests.deviceclass.resource.kubernetes.io/nic=1"},
		"QUOTA-58: nothing is left out but what is not positive":  {claim: claim("c", devices("nic", exactly, 0)), want: "count/resourceclaims.resource.k8s.io=1 nic.deviceclass.resource.k8s.io/devices=0"},
		"QUOTA-58: its pod accounts for some":                     {pod: pod(asking, naming("c")), claim: madeForPod(gpus("c"), "pod", "pod"), want: part},
		"QUOTA-58: its pod accounts for all":                      {pod: pod(with(container("c", "example.com/gpu=3", "")), naming("c")), claim: madeForPod(gpus("c"), "pod", "pod"), want: plain},
		"QUOTA-58: its pod has ended":                             {pod: pod(asking, naming("c"), controllertest.InPhase(corev1.PodFailed)), claim: madeForPod(gpus("c"), "pod", "pod"), want: whole},
		"QUOTA-58: its pod should be gone":                        {pod: pod(asking, naming("c"), deleted(time.Hour, 1)), claim: madeForPod(gpus("c"), "pod", "pod"), want: whole},
		"QUOTA-58: its pod names another claim":                   {pod: pod(asking, naming("d")), claim: madeForPod(gpus("c"), "pod", "pod"), want: whole},
		"QUOTA-58: its pod was created again":                     {pod: pod(asking, naming("c")), claim: madeForPod(gpus("c"), "pod", "old"), want: whole},
		"QUOTA-58: its pod is not known":                          {claim: madeForPod(gpus("c"), "pod", "pod"), want: whole},
		"QUOTA-58: its pod names none yet, and it is the only":    {pod: pod(asking), claim: madeForPod(gpus("c"), "pod", "pod"), want: part},
		"QUOTA-58: its pod names none yet, and another is older":  {pod: pod(asking), claim: madeForPod(gpus("c"), "pod", "pod"), others: []*resourcev1.ResourceClaim{older}, want: whole},
		"QUOTA-58: its pod names none yet, and another is first":  {pod: pod(asking), claim: madeForPod(gpus("c"), "pod", "pod"), others: []*resourcev1.ResourceClaim{madeForPod(gpus("b"), "pod", "pod")}, want: whole},
		"QUOTA-58: its pod names none yet, and another is second": {pod: pod(asking), claim: madeForPod(gpus("c"), "pod", "pod"), others: []*resourcev1.ResourceClaim{madeForPod(gpus("d"), "pod", "pod")}, want: part},
		"QUOTA-11, QUOTA-58: it was not made for the resources":   {pod: pod(asking, naming("c")), claim: unannotated, want: whole},
		"QUOTA-11, QUOTA-58: its controller is no pod":            {pod: pod(asking, naming("c")), claim: ofAnother, want: whole},
		"QUOTA-11, QUOTA-58: its owner is no controller":          {pod: pod(asking, naming("c")), claim: owned, want: whole},
	} {
		t.Run(name, func(t *testing.T) {
			pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
			claims := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{claimsByPod: claimsByPodKeys})
			store(t, claims, append(slices.Clone(test.others), test.claim)...)
			if test.pod != nil {
				store(t, pods, test.pod)
			}
			d := newDeviceClaims(nil, known, pods, everything)
			d.readFrom(source{claims, func() bool { return true }})
			used := corev1.ResourceList{}
			for _, amount := range d.describe(test.claim, now).amounts {
				used[amount.name] = amount.quantity
			}
			wantList(t, used, test.want)
		})
	}
}

func store[T any](t *testing.T, into cache.Indexer, objects ...T) {
	t.Helper()
	for _, object := range objects {
		if err := into.Update(object); err != nil {
			t.Fatal(err)
		}
	}
}

// Two classes that back the same resource are not added up. Pins QUOTA-58.
func TestClassesThatBackTheSameResource(t *testing.T) {
	used := corev1.ResourceList{}
	addExtended(used, map[string]resource.Quantity{"a": number(1), "b": number(2)}, classes{"a": "example.com/gpu", "b": "example.com/gpu"}, nil)
	wantList(t, used, "requests.deviceclass.resource.kubernetes.io/a=1 requests.deviceclass.resource.kubernetes.io/b=2 requests.example.com/gpu=2")
}
