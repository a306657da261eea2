package resourcequota

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// A kind that is served later is counted, and the quotas that limit it need no event. When it is
// no longer served, the usage stays. Pins QUOTA-85, QUOTA-86 and QUOTA-95.
func TestKindsComeAndGo(t *testing.T) {
	s := newSubject(t, quota("pods=5 secrets=5"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}})
	s.Informers.Core().V1().Secrets().Informer() // so that the kind is cached whole
	if err := s.c.reconcile(s.Context(), key); err != nil {
		t.Fatal(err)
	}
	wantList(t, controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota").Status.Used, "pods=0")

	s.discovery.lists = append(served(), resourceList("v1", true, "secrets", "create", "list", "watch", "delete"))
	s.c.refresh(s.Context())
	secrets := schema.GroupResource{Resource: "secrets"}
	if !s.c.evaluators.know("secrets") || !s.c.evaluators.counters[secrets].complete() {
		t.Fatal("secrets are not counted")
	}
	if waiting := s.c.loops.priority.Inspect().Depth; waiting != 1 {
		t.Errorf("%d quotas wait, want 1", waiting)
	}
	if err := s.c.reconcile(s.Context(), key); err != nil {
		t.Fatal(err)
	}
	wantList(t, controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota").Status.Used, "pods=0 secrets=1")

	s.discovery.lists = served()
	s.c.refresh(s.Context())
	if s.c.evaluators.know("secrets") {
		t.Error("secrets are still counted")
	}
	controllertest.Eventually(t, "the quota is up to date in the cache", func() bool {
		cached, err := s.c.quotas.ResourceQuotas("ns").Get("quota")
		return err == nil && len(cached.Status.Used) == 2
	})
	status, err := s.c.statusOf(controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota"))
	if err != nil {
		t.Fatal(err)
	}
	wantList(t, status.Used, "pods=0 secrets=1")
}

// Pins QUOTA-38.
func TestADiscoveryThatFailsChangesNothing(t *testing.T) {
	s := newSubject(t)
	for name, answer := range map[string]*discovered{
		"failed":        {err: errors.New("boom"), lists: served()[:1]},
		"empty":         {},
		"partly failed": {lists: served()[3:], err: &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Version: "v1"}: errors.New("boom")}}},
	} {
		before := maps.Clone(s.c.monitors.byKind)
		s.discovery.lists, s.discovery.err = answer.lists, answer.err
		s.c.refresh(s.Context())
		if !maps.Equal(before, s.c.monitors.byKind) {
			t.Errorf("%s: watches %v", name, s.c.monitors.watched())
		}
	}
}

// The usage of claims follows the classes and the pods it depends on. Pins QUOTA-11 and QUOTA-58.
func TestClaimsFollowTheirClassesAndPods(t *testing.T) {
	backed := "example.com/gpu"
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: &backed}}
	asking := controllertest.Pod("ns", "pod", with(container("c", "example.com/gpu=2", "")), naming("c"))
	s := newSubject(t, quota("requests.example.com/gpu=5"), class, asking, madeForPod(claim("c", devices("gpu", exactly, 3)), "pod", "pod"))
	s.run(t)
	s.wantUsed(t, "requests.example.com/gpu=3") // two of the pod, and one more of the claim
	ofClaims := func(want string) {
		t.Helper()
		controllertest.Eventually(t, "the claims use "+want, func() bool {
			used, err := s.c.claims.usage("ns", selected{})
			return err == nil && same(used, list("count/resourceclaims.resource.k8s.io=1 gpu.deviceclass.resource.k8s.io/devices=3 "+want))
		})
	}
	ofClaims("requests.deviceclass.resource.kubernetes.io/gpu=3 requests.example.com/gpu=1")
	controllertest.Change(t, s.Env, "ns", "pod", controllertest.InPhase(corev1.PodFailed))
	ofClaims("requests.deviceclass.resource.kubernetes.io/gpu=3 requests.example.com/gpu=3")
	controllertest.Change(t, s.Env, "ns", "pod", controllertest.InPhase(corev1.PodRunning))
	ofClaims("requests.deviceclass.resource.kubernetes.io/gpu=3 requests.example.com/gpu=1")
	s.Remove(t, asking)
	ofClaims("requests.deviceclass.resource.kubernetes.io/gpu=3 requests.example.com/gpu=3")
	controllertest.Change(t, s.Env, "", "gpu", func(c *resourcev1.DeviceClass) { c.Spec.ExtendedResourceName = nil })
	ofClaims("requests.deviceclass.resource.kubernetes.io/gpu=3")
}

// One class replaces another, which backs the same resource until it is deleted, or backs another one. Pins QUOTA-105.
func TestAResourceIsLimitedAsLongAsAClassBacksIt(t *testing.T) {
	const gpus, other, implicit = "requests.example.com/gpu", "requests.example.com/other", "requests.deviceclass.resource.kubernetes.io/old"
	class := func(name string, age time.Duration) *resourcev1.DeviceClass {
		return &resourcev1.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Spec:       resourcev1.DeviceClassSpec{ExtendedResourceName: ptr.To("example.com/gpu")},
		}
	}
	for name, test := range map[string]struct {
		change func(*testing.T, *subject)
		shown  func(*deviceClaims) bool // whether the change is shown
	}{
		"QUOTA-105: the other class is deleted": {
			change: func(t *testing.T, s *subject) { s.Remove(t, class("old", 0)) },
			shown:  func(claims *deviceClaims) bool { return !claims.limits(implicit) },
		},
		"QUOTA-105: the other class backs another resource": {
			change: func(t *testing.T, s *subject) {
				controllertest.Change(t, s.Env, "", "old", func(c *resourcev1.DeviceClass) { c.Spec.ExtendedResourceName = ptr.To("example.com/other") })
			},
			shown: func(claims *deviceClaims) bool { return claims.limits(other) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, quota(gpus+"=5"), class("old", time.Hour), class("new", time.Minute), claim("c", devices("new", exactly, 3)))
			s.run(t)
			s.wantUsed(t, gpus+"=3")
			test.change(t, s)
			controllertest.Eventually(t, "the change is shown", func() bool { return test.shown(s.c.claims) })
			status, err := s.c.statusOf(controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota"))
			if err != nil {
				t.Fatal(err)
			}
			wantList(t, status.Used, gpus+"=3")
		})
	}
}

// Another claim of the same pod changes which of them its pod accounts for. Pins QUOTA-58.
func TestClaimsFollowTheOtherClaimsOfTheirPod(t *testing.T) {
	backed := "example.com/gpu"
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: &backed}}
	first, second := madeForPod(claim("a", devices("gpu", exactly, 3)), "pod", "pod"), madeForPod(claim("b", devices("gpu", exactly, 2)), "pod", "pod")
	s := newSubject(t, quota("pods=5"), class, controllertest.Pod("ns", "pod", with(container("c", "example.com/gpu=2", ""))), first, second)
	wantGPUs := func(want string) {
		t.Helper()
		controllertest.Eventually(t, want+" GPUs", func() bool {
			used, err := s.c.claims.usage("ns", selected{})
			got := used["requests.example.com/gpu"]
			return err == nil && got.String() == want
		})
	}
	wantGPUs("3") // 3-2 of the first, 2 of the second
	s.Remove(t, first)
	wantGPUs("0")
}

// Pins QUOTA-91.
func TestClaimsAreNotComputedBeforeTheClassesAreKnown(t *testing.T) {
	env := controllertest.New(t, claim("c", devices("gpu", exactly, 1)))
	env.Served = served
	env.Refuse("list deviceclasses", errors.New("boom"))
	c := must.Get(newController(env.Env, config{workers: 1, features: everything}))(t)
	env.Informers.StartWithContext(env.Context())
	controllertest.Eventually(t, "all but the classes are known", func() bool {
		m := c.monitors.byKind[claims.GroupResource()]
		return m.registrations[1].HasSynced() && c.pods.isComplete()
	})
	if used, err := c.claims.usage("ns", selected{}); err == nil {
		t.Errorf("got %v", used)
	}
	status, err := c.statusOf(quota("requests.example.com/gpu=9", status("requests.example.com/gpu=9", "requests.example.com/gpu=5")))
	if err == nil {
		t.Error("the extended resources of a quota are known")
	}
	wantList(t, status.Used, "requests.example.com/gpu=5")
}

// Pods are counted without ResourceClaims once these are not served any more. Pins QUOTA-85.
func TestClaimsThatAreNotServedAnyMoreHideNoPods(t *testing.T) {
	backed := "example.com/gpu"
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: &backed}}
	asking := controllertest.Pod("ns", "pod", with(container("c", "example.com/gpu=2", "")))
	s := newSubject(t, quota("requests.example.com/gpu=5"), class, asking)
	stop := s.run(t)
	s.wantUsed(t, "requests.example.com/gpu=2")
	stop() // from here on it is the test that follows discovery
	s.discovery.lists = slices.DeleteFunc(served(), func(l *metav1.APIResourceList) bool { return l.GroupVersion == resourcev1.SchemeGroupVersion.String() })
	s.c.refresh(s.Context())
	if s.c.monitors.byKind[claims.GroupResource()] != nil {
		t.Fatal("claims are still watched")
	}
	s.Remove(t, asking)
	controllertest.Eventually(t, "nothing is used", func() bool {
		status, err := s.c.statusOf(quota("requests.example.com/gpu=5"))
		return err == nil && same(status.Used, list("requests.example.com/gpu=0"))
	})
}

// Without the gate, the number of ResourceClaims is limited as that of any other kind. Pins
// QUOTA-96.
func TestClaimsOfOlderVersions(t *testing.T) {
	env := controllertest.New(t)
	env.Served = served
	c := must.Get(newController(env.Env, config{workers: 1}))(t)
	if !c.evaluators.know("count/resourceclaims.resource.k8s.io") || c.evaluators.know("gpu.deviceclass.resource.k8s.io/devices") {
		t.Error("ResourceClaims are not counted as any other kind")
	}
}

// Pins QUOTA-94.
func TestWhatCannotBeWatchedHoldsUpNothingElse(t *testing.T) {
	boom := errors.New("boom")
	good, bad := corev1.SchemeGroupVersion.WithResource("good"), corev1.SchemeGroupVersion.WithResource("bad")
	m := &monitors{byKind: map[schema.GroupResource]*monitor{}, watch: func(resource schema.GroupVersionResource) (*monitor, error) {
		if resource == bad {
			return nil, boom
		}
		return &monitor{resource: resource}, nil
	}}
	wanted := resources{good.GroupResource(): good, bad.GroupResource(): bad}
	added, err := m.follow(wanted)
	if len(added) != 1 || added[0].resource != good || !errors.Is(err, boom) || err.Error() != "watching /v1, Resource=bad: boom" {
		t.Errorf("got %v, %v", added, err)
	}
	if added, err := m.follow(wanted); len(added) != 0 || !errors.Is(err, boom) {
		t.Errorf("the next time: got %v, %v", added, err)
	}
}

// An informer that cannot be filled does not hold up the quotas that do not need it. Pins QUOTA-87.
func TestWorkersStartWithoutCachesThatCannotBeFilled(t *testing.T) {
	env := controllertest.New(t, quota("pods=5"))
	env.Discovery = &discovered{lists: served()}
	env.Refuse("list services", errors.New("boom"))
	c := must.Get(newController(env.Env, config{workers: 1}))(t)
	env.Informers.StartWithContext(env.Context())
	env.Run(t, c)
	env.EventuallyAsTimePasses(t, "the usage is written", time.Second, func() bool {
		return same(controllertest.MustStored[*corev1.ResourceQuota](t, env, "ns", "quota").Status.Used, list("pods=0"))
	})
	if passed := env.Clock.Since(controllertest.Epoch); passed < syncTimeout {
		t.Errorf("after %v", passed)
	}
}

// Pins QUOTA-38 and QUOTA-61.
func TestDiscoveryIsAskedEvery30Seconds(t *testing.T) {
	s := newSubject(t)
	s.run(t)
	controllertest.Eventually(t, "discovery is asked at once", func() bool { return s.discovery.asked.Load() == 1 })
	s.EventuallyAsTimePasses(t, "it is asked again", time.Second, func() bool { return s.discovery.asked.Load() == 2 })
	if passed := s.Clock.Since(controllertest.Epoch); passed < 30*time.Second {
		t.Errorf("after %v", passed)
	}
}
