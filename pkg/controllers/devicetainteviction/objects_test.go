package devicetainteviction

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var epoch = controllertest.Epoch

var podKey = types.NamespacedName{Namespace: "ns", Name: "pod"}

const driver = "gpu.example.com"

func seconds(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }

// taint is one that evicts pods, added some seconds after the epoch.
func taint(key string, added int) resourcev1.DeviceTaint {
	return resourcev1.DeviceTaint{Key: key, Effect: resourcev1.DeviceTaintEffectNoExecute, TimeAdded: &metav1.Time{Time: seconds(added)}}
}

func soft(key string) resourcev1.DeviceTaint {
	return resourcev1.DeviceTaint{Key: key, Effect: resourcev1.DeviceTaintEffectNoSchedule, TimeAdded: &metav1.Time{Time: epoch}}
}

func device(name string, taints ...resourcev1.DeviceTaint) resourcev1.Device {
	return resourcev1.Device{Name: name, Taints: taints}
}

// slice is a slice of a pool. Its name is that of the pool and the generation.
func slice(pool string, generation int64, devices ...resourcev1.Device) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", pool, generation)},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, Devices: devices, Pool: resourcev1.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: 1},
		},
	}
}

// ofNode makes a slice one that the node publishes.
func ofNode(node string, s *resourcev1.ResourceSlice) *resourcev1.ResourceSlice {
	s.Name, s.Spec.NodeName = node+"-"+s.Name, &node
	return s
}

// rule taints devices from the epoch on. What it selects is given as driver/pool/device, where an empty
// part selects all; nothing at all is no selector.
func rule(name, selected string, effect resourcev1beta2.DeviceTaintEffect, change ...func(*resourcev1beta2.DeviceTaintRule)) *resourcev1beta2.DeviceTaintRule {
	r := &resourcev1beta2.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Generation: 1},
		Spec:       resourcev1beta2.DeviceTaintRuleSpec{Taint: resourcev1beta2.DeviceTaint{Key: name, Effect: effect, TimeAdded: &metav1.Time{Time: epoch}}},
	}
	if selected != "" {
		parts, s := strings.Split(selected, "/"), &resourcev1beta2.DeviceTaintSelector{}
		for i, field := range []**string{&s.Driver, &s.Pool, &s.Device} {
			if parts[i] != "" {
				*field = ptr.To(parts[i])
			}
		}
		r.Spec.DeviceSelector = s
	}
	for _, c := range change {
		c(r)
	}
	return r
}

const (
	noExecute  = resourcev1beta2.DeviceTaintEffectNoExecute
	noEffect   = resourcev1beta2.DeviceTaintEffectNone
	everything = "//"
)

// tolerates is a toleration of just NoExecute for some seconds, without a limit if there are none.
func tolerates(key string, limit ...int64) resourcev1.DeviceToleration {
	t := resourcev1.DeviceToleration{Key: key, Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffectNoExecute}
	for _, s := range limit {
		t.TolerationSeconds = ptr.To(s)
	}
	return t
}

// claim is allocated the device of a pool, and is reserved for the pod.
func claim(name, pool, device string, tolerations ...resourcev1.DeviceToleration) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-of-" + name)},
		Status: resourcev1.ResourceClaimStatus{
			Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
				Results: []resourcev1.DeviceRequestAllocationResult{{Driver: driver, Pool: pool, Device: device, Tolerations: tolerations}},
			}},
			ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: "pod"}},
		},
	}
}

// pod runs on a node and uses claims by their names.
func pod(claims ...string) *corev1.Pod {
	return controllertest.Pod("ns", "pod", func(p *corev1.Pod) {
		for _, name := range claims {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "use-of-" + name, ResourceClaimName: ptr.To(name)})
		}
	})
}

// generated makes a claim one that was generated for an owner from a template, and the pod one that uses it.
func generated(p *corev1.Pod, c *resourcev1.ResourceClaim, owner metav1.OwnerReference) {
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "template", ResourceClaimTemplateName: ptr.To("template")}}
	p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "template", ResourceClaimName: ptr.To(c.Name)}}
	owner.Controller = ptr.To(true)
	c.OwnerReferences = []metav1.OwnerReference{owner}
}

// extended makes a claim one that the scheduler created for the extended resources of the pod, which names no other.
func extended(p *corev1.Pod, c *resourcev1.ResourceClaim) {
	p.Spec.ResourceClaims = nil
	p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: c.Name}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: ptr.To(true)}
	c.OwnerReferences = []metav1.OwnerReference{owner}
}

// inPodGroup makes a pod one of the group, for which the claim is reserved as a whole.
func inPodGroup(p *corev1.Pod, c *resourcev1.ResourceClaim) {
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("group")}
	if c != nil {
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{APIGroup: schedulingv1alpha2.GroupName, Resource: "podgroups", Name: "group", UID: "group"}}
	}
}

var usual = config{workers: 8, rules: true, podGroups: true}

// fixture is a controller that has begun, and that does not work on its queue. What is stored on its
// API server comes into its caches as env.Start would bring it.
func fixture(t testing.TB, objects ...runtime.Object) (*controllertest.Env, *evictionController) {
	t.Helper()
	env := controllertest.New(t, objects...)
	return env, begun(t, env, objects...)
}

// running is a controller whose loops run, and have nothing to do for now.
func running(t *testing.T, env *controllertest.Env) *evictionController {
	t.Helper()
	c := must.Get(newController(env.Env, usual))(t)
	env.Start(t)
	env.Run(t, c)
	env.AwaitIdle(t)
	return c
}

func begun(t testing.TB, env *controllertest.Env, objects ...runtime.Object) *evictionController {
	t.Helper()
	c := must.Get(newController(env.Env, usual))(t)
	env.Cache(t, objects...)
	if err := c.begin(env.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// show has the caches show objects, and calls the handlers as if they had just been added or changed.
func show(t testing.TB, env *controllertest.Env, c *evictionController, objects ...runtime.Object) {
	t.Helper()
	for _, object := range objects {
		meta := object.(metav1.Object)
		was, existed, err := env.CacheOf(t, object).GetByKey(types.NamespacedName{Namespace: meta.GetNamespace(), Name: meta.GetName()}.String()[offset(meta):])
		if err != nil {
			t.Fatal(err)
		}
		env.Cache(t, object)
		switch object := object.(type) {
		case *corev1.Pod:
			if !existed || !sameUse(was.(*corev1.Pod), object) {
				c.podChanged(object)
			}
		case *resourcev1.ResourceClaim:
			if !existed {
				c.claimChanged(object)
			} else {
				c.claimUpdated(was.(*resourcev1.ResourceClaim), object)
			}
		case *resourcev1.ResourceSlice:
			c.poolChanged(poolOf(object))
		case *resourcev1beta2.DeviceTaintRule:
			if !existed {
				c.ruleChanged(nil, object)
			} else {
				c.ruleChanged(was.(*resourcev1beta2.DeviceTaintRule), object)
			}
		}
	}
}

// offset is 1 for an object without a namespace, whose key has no slash.
func offset(object metav1.Object) int {
	if object.GetNamespace() == "" {
		return 1
	}
	return 0
}

// hide has the caches lose objects, and calls the handlers.
func hide(t testing.TB, env *controllertest.Env, c *evictionController, objects ...runtime.Object) {
	t.Helper()
	for _, object := range objects {
		env.Uncache(t, object)
		switch object := object.(type) {
		case *corev1.Pod:
			c.podChanged(object)
		case *resourcev1.ResourceClaim:
			c.claimChanged(object)
		case *resourcev1.ResourceSlice:
			c.poolChanged(poolOf(object))
		case *resourcev1beta2.DeviceTaintRule:
			c.ruleChanged(object, nil)
		}
	}
}

// pending returns in how many seconds after the epoch the pod is evicted, -1 if it is not.
func pending(c *evictionController) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	made, ok := c.appointments.all[podKey]
	if !ok {
		return -1
	}
	return int(made.due.Sub(epoch) / time.Second)
}

func wantPending(t testing.TB, c *evictionController, want int) {
	t.Helper()
	if got := pending(c); got != want {
		t.Errorf("pending in %d seconds, want %d", got, want)
	}
}

const (
	marking    = "Normal DeviceTaintManagerEviction Marking for deletion"
	cancelling = "Normal DeviceTaintManagerEviction Cancelling deletion"
)
