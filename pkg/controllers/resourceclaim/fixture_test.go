package resourceclaim

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var (
	defaults = config{workers: 1, adminAccess: true, prioritizedLists: true}
	gated    = config{workers: 1, adminAccess: true, prioritizedLists: true, podGroups: true}

	podKey   = key{kindPod, types.NamespacedName{Namespace: "ns", Name: "pod"}}
	groupKey = key{kindPodGroup, types.NamespacedName{Namespace: "ns", Name: "group"}}
	claimKey = key{kindClaim, types.NamespacedName{Namespace: "ns", Name: "claim"}}
)

// subject is a controller whose keys are reconciled by calls.
type subject struct {
	*controllertest.Subject[key]
	c *claimController
}

// begin makes a controller whose caches show what the API server holds.
func begin(t testing.TB, config config, k key, objects ...runtime.Object) *subject {
	t.Helper()
	s := &subject{Subject: controllertest.NewSubject(t, k, objects...)}
	s.CompleteWrites("resourceclaims")
	s.succeed(t, config)
	s.CatchUp(t)
	return s
}

// succeed puts another instance in the place of the controller.
func (s *subject) succeed(t testing.TB, config config) {
	t.Helper()
	c := must.Get(newController(s.Env.Env, config))(t)
	if err := c.begin(s.Context()); err != nil {
		t.Fatal(err)
	}
	c.queue, s.c, s.Work = s.Queued, c, c.reconcile
	s.Kinds = []runtime.Object{&corev1.Pod{}, &resourcev1.ResourceClaim{}, &resourcev1.ResourceClaimTemplate{}}
	if config.podGroups {
		s.Kinds = append(s.Kinds, &schedulingv1alpha2.PodGroup{})
	}
}

// entry is an entry of spec.resourceClaims.
type entry = corev1.PodResourceClaim

func ofTemplate(name, template string) entry {
	return entry{Name: name, ResourceClaimTemplateName: &template}
}

func ofClaim(name, claim string) entry { return entry{Name: name, ResourceClaimName: &claim} }

// pod makes a pod without a node.
func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := controllertest.Pod("ns", "pod", controllertest.OnNode(""), controllertest.InPhase(corev1.PodPending))
	p.ResourceVersion = "1"
	return controllertest.Changed(p, changes...)
}

func with(entries ...entry) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.ResourceClaims = entries }
}

// recorded puts names of entries and of their claims in turn into the status of a pod.
func recorded(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i := 0; i < len(names); i += 2 {
			p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, status{Name: names[i], ResourceClaimName: &names[i+1]})
		}
	}
}

// notNeeded says that an entry of a pod needs no claim.
func notNeeded(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, status{Name: name})
	}
}

func inGroup(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name} }
}

func uid[T metav1.Object](uid types.UID) func(T) { return func(o T) { o.SetUID(uid) } }

func group(changes ...func(*schedulingv1alpha2.PodGroup)) *schedulingv1alpha2.PodGroup {
	return controllertest.Changed(&schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "group", UID: "group", ResourceVersion: "1"}}, changes...)
}

func groupWith(entries ...entry) func(*schedulingv1alpha2.PodGroup) {
	return func(g *schedulingv1alpha2.PodGroup) {
		for _, e := range entries {
			g.Spec.ResourceClaims = append(g.Spec.ResourceClaims, schedulingv1alpha2.PodGroupResourceClaim(e))
		}
	}
}

func groupRecorded(name, claim string) func(*schedulingv1alpha2.PodGroup) {
	return func(g *schedulingv1alpha2.PodGroup) {
		g.Status.ResourceClaimStatuses = append(g.Status.ResourceClaimStatuses, schedulingv1alpha2.PodGroupResourceClaimStatus{Name: name, ResourceClaimName: &claim})
	}
}

func template(changes ...func(*resourcev1.ResourceClaimTemplate)) *resourcev1.ResourceClaimTemplate {
	return controllertest.Changed(&resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "template", UID: "template", ResourceVersion: "1"},
		Spec: resourcev1.ResourceClaimTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"}},
			Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{exactly("r", nil)}}},
		},
	}, changes...)
}

func exactly(name string, adminAccess *bool) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: name, Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "class", AdminAccess: adminAccess}}
}

type claimChange = func(*resourcev1.ResourceClaim)

func claim(changes ...claimChange) *resourcev1.ResourceClaim {
	return controllertest.Changed(&resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim", UID: "claim", ResourceVersion: "1"},
	}, changes...)
}

func named(name string) claimChange {
	return func(c *resourcev1.ResourceClaim) { c.Name, c.UID = name, types.UID(name) }
}

// generatedFor makes a claim one that was generated for an entry of a pod.
func generatedFor(pod types.UID, entry string) claimChange {
	return func(c *resourcev1.ResourceClaim) {
		c.Annotations = map[string]string{resourcev1.PodResourceClaimAnnotation: entry}
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: pod, Controller: ptr.To(true)}}
	}
}

// generatedForGroup is generatedFor with a PodGroup.
func generatedForGroup(group types.UID, entry string) claimChange {
	return func(c *resourcev1.ResourceClaim) {
		generatedFor(group, entry)(c)
		c.OwnerReferences[0].APIVersion, c.OwnerReferences[0].Kind, c.OwnerReferences[0].Name = "scheduling.k8s.io/v1alpha2", "PodGroup", "group"
	}
}

func allocated(c *resourcev1.ResourceClaim) { c.Status.Allocation = &resourcev1.AllocationResult{} }

func protected(c *resourcev1.ResourceClaim) {
	c.Finalizers = append(c.Finalizers, resourcev1.Finalizer)
}

func terminating(c *resourcev1.ResourceClaim) {
	c.DeletionTimestamp = &metav1.Time{Time: controllertest.Epoch}
}

// reserved makes a claim one that is reserved for pods whose UIDs are their names.
func reserved(pods ...string) claimChange {
	return func(c *resourcev1.ResourceClaim) {
		for _, name := range pods {
			c.Status.ReservedFor = append(c.Status.ReservedFor, consumer{Resource: "pods", Name: name, UID: types.UID(name)})
		}
	}
}

func reservedForGroup(c *resourcev1.ResourceClaim) {
	c.Status.ReservedFor = append(c.Status.ReservedFor, consumer{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "group", UID: "group"})
}

// inUse is a claim that is allocated and protected, and reserved for pods.
func inUse(pods ...string) claimChange {
	return controllertest.All(allocated, protected, reserved(pods...))
}

// full makes a claim one that is reserved for as many pods as the API server allows.
func full(c *resourcev1.ResourceClaim) {
	pods := make([]string, resourcev1.ResourceClaimReservedForMaxSize)
	for i := range pods {
		pods[i] = fmt.Sprint("other", i)
	}
	inUse(pods...)(c)
}

func stored(t testing.TB, s *subject, name string) *resourcev1.ResourceClaim {
	t.Helper()
	return controllertest.MustStored[*resourcev1.ResourceClaim](t, s.Env, "ns", name)
}
