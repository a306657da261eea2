package resourceclaim

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

const (
	ending    = "update resourceclaims/status claim"
	freeing   = "update resourceclaims claim"
	deleting  = "delete resourceclaims claim"
	askingPod = "get pods pod"
)

func TestConsumers(t *testing.T) {
	running := controllertest.All(controllertest.OnNode("node"), controllertest.InPhase(corev1.PodRunning))
	another := uid[*corev1.Pod]("another")
	for name, tc := range map[string]struct {
		config   config
		cached   []runtime.Object // besides the claim
		live     []runtime.Object // besides what is cached
		gone     bool             // whether its deletion was seen
		claim    claimChange
		stays    bool
		again    bool     // whether it is looked at again, though nothing is requested
		requests []string // before those that end the reservation
	}{
		"RCLM-24a: runs":                       {cached: []runtime.Object{pod(running)}, claim: inUse("pod"), stays: true},
		"RCLM-24a: has succeeded":              {cached: []runtime.Object{pod(controllertest.InPhase(corev1.PodSucceeded))}, claim: inUse("pod")},
		"RCLM-24a: has failed":                 {cached: []runtime.Object{pod(controllertest.InPhase(corev1.PodFailed))}, claim: inUse("pod")},
		"RCLM-24a: terminates on its node":     {cached: []runtime.Object{pod(running, controllertest.Terminating)}, claim: inUse("pod"), stays: true},
		"RCLM-24a: terminates without one":     {cached: []runtime.Object{pod(controllertest.Terminating)}, claim: inUse("pod")},
		"RCLM-24a: was seen deleted":           {gone: true, claim: inUse("pod")},
		"RCLM-24a: was seen deleted, namesake": {cached: []runtime.Object{pod(another)}, gone: true, claim: inUse("pod")},
		"RCLM-24a, RCLM-39: is not there":      {claim: inUse("pod"), requests: []string{askingPod}},
		"RCLM-24a, RCLM-34: is there live":     {live: []runtime.Object{pod()}, claim: inUse("pod"), stays: true, requests: []string{askingPod}},
		"RCLM-24a: has ended, live":            {live: []runtime.Object{pod(controllertest.InPhase(corev1.PodFailed))}, claim: inUse("pod"), stays: true, requests: []string{askingPod}},
		"RCLM-24a: is another, live":           {live: []runtime.Object{pod(another)}, claim: inUse("pod"), requests: []string{askingPod}},
		"RCLM-54: is another in the cache":     {cached: []runtime.Object{pod(another)}, claim: inUse("pod"), requests: []string{askingPod}},
		"RCLM-24c: of an unknown kind": {claim: controllertest.All(inUse(), func(c *resourcev1.ResourceClaim) {
			c.Status.ReservedFor = []consumer{{APIGroup: "example.com", Resource: "pods", Name: "pod", UID: "pod"}}
		}), stays: true},
		"RCLM-24b: a PodGroup":                    {config: gated, cached: []runtime.Object{group()}, claim: controllertest.All(inUse(), reservedForGroup), stays: true},
		"RCLM-24b: a PodGroup that is not there":  {config: gated, claim: controllertest.All(inUse(), reservedForGroup), requests: []string{"get podgroups group"}},
		"RCLM-24b: a PodGroup that is there live": {config: gated, live: []runtime.Object{group()}, claim: controllertest.All(inUse(), reservedForGroup), stays: true, requests: []string{"get podgroups group"}},
		"RCLM-69: the claim terminates, and the cached pod has none": {
			cached: []runtime.Object{pod(running)}, claim: controllertest.All(inUse("pod"), terminating), stays: true, again: true,
		},
		"RCLM-69: the claim terminates, and the cached pod names it": {
			cached: []runtime.Object{pod(running, with(ofClaim("gpu", "claim")))}, claim: controllertest.All(inUse("pod"), terminating), stays: true,
		},
		"RCLM-24b: a PodGroup, without the gate": {claim: controllertest.All(inUse(), reservedForGroup), stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, tc.config, claimKey, append(tc.cached, claim(tc.claim))...)
			for _, object := range tc.live {
				s.Store(t, object)
			}
			if tc.gone {
				s.c.memory.gone.add("pod")
			}
			s.MustReconcile(t)
			if tc.stays {
				s.WantRequests(t, tc.requests...)
			} else {
				s.WantRequests(t, append(tc.requests, ending, freeing)...)
			}
			var queued []string
			if tc.stays && (tc.requests != nil || tc.again) { // it may end without an event
				queued = []string{"claim:ns/claim in 30s"}
			}
			s.Queued.Want(t, queued...)
		})
	}
}

// A pod of the same name that is newer than the cache has the claim reserved. Pins RCLM-54.
func TestAReservationOfANewerPodStays(t *testing.T) {
	s := begin(t, defaults, claimKey, pod(uid[*corev1.Pod]("older")), claim(inUse("pod")))
	s.Remove(t, pod())
	s.Store(t, pod())
	s.MustReconcile(t)
	s.WantRequests(t, askingPod)
}

// Pins RCLM-24a.
func TestWhenItIsNotKnownWhetherAConsumerExists(t *testing.T) {
	s := begin(t, defaults, claimKey, claim(inUse("a", "pod")))
	s.Refuse(askingPod, errors.New("boom"))
	if err := s.Reconcile(); err == nil {
		t.Error("no error")
	}
	s.WantRequests(t, "get pods a", askingPod)
	if err := s.Reconcile(); err == nil {
		t.Error("no error")
	}
	s.WantRequests(t, askingPod) // that the other is gone is remembered
}

func TestRelease(t *testing.T) {
	done := pod(controllertest.InPhase(corev1.PodSucceeded))
	b := controllertest.Pod("ns", "b")
	for name, tc := range map[string]struct {
		claim     claimChange
		requests  []string
		consumers []string
		allocated bool
		protected bool
	}{
		"RCLM-25: the last consumer":            {inUse("pod"), []string{ending, freeing}, nil, false, false},
		"RCLM-25, RCLM-24: one of three":        {inUse("b", "pod", "b"), []string{ending}, []string{"b", "b"}, true, true},
		"RCLM-25: of one that is not protected": {controllertest.All(allocated, reserved("pod")), []string{ending}, nil, true, false},
		"RCLM-25a: it never had any":            {inUse(), nil, nil, true, true},
		"RCLM-26: being deleted, never used":    {controllertest.All(inUse(), terminating), []string{ending, freeing}, nil, false, false},
		"RCLM-26: being deleted, not allocated": {controllertest.All(protected, terminating), []string{freeing}, nil, false, false},
		"RCLM-26: being deleted, in use":        {controllertest.All(inUse("b"), terminating), nil, []string{"b"}, true, true},
		"RCLM-25: being deleted, last consumer": {controllertest.All(inUse("pod"), terminating), []string{ending, freeing}, nil, false, false},
		"RCLM-25: nothing to do":                {func(*resourcev1.ResourceClaim) {}, nil, nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			other := func(c *resourcev1.ResourceClaim) { c.Finalizers = append(c.Finalizers, "example.com/other") }
			s := begin(t, defaults, claimKey, done, b, claim(tc.claim, other))
			s.CheckWrites("resourceclaims")
			s.MustReconcile(t)
			s.WantRequests(t, tc.requests...)
			c := stored(t, s, "claim")
			var consumers []string
			for _, consumer := range c.Status.ReservedFor {
				consumers = append(consumers, consumer.Name)
			}
			if !slices.Equal(consumers, tc.consumers) || (c.Status.Allocation != nil) != tc.allocated || isProtected(c) != tc.protected {
				t.Errorf("it is reserved for %v, %+v", consumers, c)
			}
			if !slices.Contains(c.Finalizers, "example.com/other") {
				t.Errorf("finalizers are %v", c.Finalizers)
			}
			s.MustReconcile(t) // the cache is as it was
			s.WantRequests(t)
		})
	}
}

// Somebody reserves the claim between our look at the cache and the write. Pins RCLM-25.
func TestAClaimThatChangesMeanwhileIsNotFreed(t *testing.T) {
	for name, tc := range map[string]struct {
		at    string
		claim claimChange
	}{
		"before its reservation ends":   {ending, inUse("pod")},
		"before it loses its finalizer": {freeing, inUse("pod")},
		"before it is deleted":          {deleting, generatedFor("pod", "gpu")},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, defaults, claimKey, pod(controllertest.InPhase(corev1.PodSucceeded)), claim(tc.claim))
			s.CheckWrites("resourceclaims")
			conflict := apierrors.NewConflict(resourcev1.Resource("resourceclaims"), "claim", errors.New("changed"))
			if tc.at == deleting {
				s.Refuse(deleting, conflict) // the fake server knows no preconditions
			} else {
				s.Intercept(tc.at, func(clienttesting.Action) error {
					controllertest.Change(t, s.Env, "ns", "claim", inUse("b"))
					return nil
				})
			}
			if err := s.Reconcile(); !reconcile.IsExpected(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDeleteUnused(t *testing.T) {
	done := controllertest.InPhase(corev1.PodSucceeded)
	another := uid[*corev1.Pod]("another")
	extended := func(c *resourcev1.ResourceClaim) {
		generatedFor("pod", "")(c)
		c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	}
	for name, tc := range map[string]struct {
		cached   []runtime.Object
		live     []runtime.Object
		gone     bool
		claim    claimChange
		requests []string
	}{
		"RCLM-27: of a pod that is done":              {cached: []runtime.Object{pod(done)}, claim: generatedFor("pod", "gpu"), requests: []string{deleting}},
		"RCLM-27, RCLM-36: of its extended resources": {cached: []runtime.Object{pod(done)}, claim: extended, requests: []string{deleting}},
		"RCLM-47: with its reservation": {
			cached: []runtime.Object{pod(done)}, claim: controllertest.All(inUse("pod"), generatedFor("pod", "gpu")), requests: []string{ending, freeing, deleting},
		},
		"RCLM-27: of a pod that lives":                   {cached: []runtime.Object{pod()}, claim: generatedFor("pod", "gpu")},
		"RCLM-27: used by another":                       {cached: []runtime.Object{pod(done), controllertest.Pod("ns", "b")}, claim: controllertest.All(inUse("b"), generatedFor("pod", "gpu"))},
		"RCLM-27: of a pod that is gone":                 {claim: generatedFor("pod", "gpu")},
		"RCLM-27: of a pod that is gone, namesake":       {cached: []runtime.Object{pod(another)}, gone: true, claim: generatedFor("pod", "gpu"), requests: []string{deleting}},
		"RCLM-54: of a pod that is another in the cache": {cached: []runtime.Object{pod(another)}, claim: generatedFor("pod", "gpu"), requests: []string{askingPod, deleting}},
		"RCLM-54: of a pod that is newer than the cache": {cached: []runtime.Object{pod(another)}, live: []runtime.Object{pod()}, claim: generatedFor("pod", "gpu"), requests: []string{askingPod}},
		"RCLM-27: of the user":                           {cached: []runtime.Object{pod(done)}, claim: func(*resourcev1.ResourceClaim) {}},
		"RCLM-27: of a PodGroup":                         {cached: []runtime.Object{pod(done)}, claim: generatedForGroup("group", "gpu")},
		"RCLM-55: being deleted":                         {cached: []runtime.Object{pod(done)}, claim: controllertest.All(generatedFor("pod", "gpu"), terminating)},
		"RCLM-27: of an owner that does not control it": {cached: []runtime.Object{pod(done)}, claim: controllertest.All(generatedFor("pod", "gpu"), func(c *resourcev1.ResourceClaim) {
			c.OwnerReferences[0].Controller = nil
		})},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, gated, claimKey, append(tc.cached, claim(tc.claim))...)
			for _, object := range tc.live {
				s.Store(t, object)
			}
			if tc.gone {
				s.c.memory.gone.add("pod")
			}
			s.MustReconcile(t)
			s.WantRequests(t, tc.requests...)
			if tc.live == nil {
				s.MustReconcile(t) // the cache does not show that it is gone
				s.WantRequests(t)
			}
		})
	}
}

// Pins RCLM-55.
func TestADeletionIsOnConditionOfTheState(t *testing.T) {
	s := begin(t, defaults, claimKey, pod(controllertest.InPhase(corev1.PodSucceeded)), claim(inUse("pod"), generatedFor("pod", "gpu")))
	version := ""
	s.Intercept(deleting, func(clienttesting.Action) error {
		version = stored(t, s, "claim").ResourceVersion
		return nil
	})
	s.MustReconcile(t)
	options := s.Fake.Actions()[2].(clienttesting.DeleteActionImpl).DeleteOptions
	if p := options.Preconditions; *p.UID != "claim" || *p.ResourceVersion != version || version == "1" {
		t.Errorf("deleted on condition of %v %v, it is %v", *p.UID, *p.ResourceVersion, version)
	}
}

// Pins RCLM-27 and RCLM-55.
func TestADeletionThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"the garbage collector was faster": {apierrors.NewNotFound(resourcev1.Resource("resourceclaims"), "claim"), ""},
		"anything else":                    {errors.New("boom"), "delete unused generated claim ns/claim: boom"},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, defaults, claimKey, pod(controllertest.InPhase(corev1.PodSucceeded)), claim(generatedFor("pod", "gpu")))
			s.Refuse(deleting, tc.err)
			if got := errorText(s.Reconcile()); got != tc.want {
				t.Errorf("got %q", got)
			}
			s.Requests()
			_ = s.Reconcile()
			if tc.want == "" {
				s.WantRequests(t)
			} else {
				s.WantRequests(t, deleting)
			}
		})
	}
}

// An admission webhook may answer with NotFound: the cache shows whether the claim is gone. Pins RCLM-66.
func TestADeletionDoesNotProveThatAClaimIsGone(t *testing.T) {
	for name, isGone := range map[string]bool{"it is there": false, "it is gone": true} {
		t.Run(name, func(t *testing.T) {
			done := pod(controllertest.InPhase(corev1.PodSucceeded))
			s := begin(t, defaults, claimKey, done, claim(generatedFor("pod", "gpu")))
			allow := s.Refuse(deleting, apierrors.NewNotFound(resourcev1.Resource("resourceclaims"), "claim"))
			s.MustReconcile(t)
			s.Queued.Want(t, "claim:ns/claim in 10s")
			allow()
			s.Requests()
			s.Clock.Step(reconcile.RecheckAfter)
			if isGone {
				s.Uncache(t, claim())
				s.MustReconcile(t)
				s.WantRequests(t)
				return
			}
			s.MustReconcile(t)
			s.WantRequests(t, deleting)
			s.Queued.Want(t)
		})
	}
}

// Pins RCLM-23.
func TestAClaimThatIsGone(t *testing.T) {
	s := begin(t, defaults, claimKey)
	s.MustReconcile(t)
	s.WantRequests(t)
}

// Pins RCLM-35, RCLM-46 and RCLM-56.
func TestDeletedConsumersAreRemembered(t *testing.T) {
	s := begin(t, defaults, claimKey, claim(inUse("pod")))
	gone := s.c.memory.gone
	gone.add("pod")
	s.Clock.Step(goneTTL - time.Second)
	s.Succeed(s.c.HandOver())
	s.succeed(t, defaults)
	if !s.c.memory.isGone("pod") {
		t.Error("not by the next instance")
	}
	s.Clock.Step(time.Second)
	if s.c.memory.isGone("pod") {
		t.Error("for longer than a UID may be trusted")
	}
	for range goneCapacity {
		gone.add("pod")
	}
	if !(memory{gone: gone}).isGone("pod") || len(gone.order) != 1 {
		t.Errorf("the same is counted %d times", len(gone.order))
	}
	for i := range goneCapacity {
		gone.add(types.UID(fmt.Sprint(i)))
	}
	if (memory{gone: gone}).isGone("pod") || len(gone.since) != goneCapacity {
		t.Errorf("%d are remembered", len(gone.since))
	}
}

func TestClassOf(t *testing.T) {
	yes := true
	admin := func(c *resourcev1.ResourceClaim) {
		c.Spec.Devices.Requests = []resourcev1.DeviceRequest{exactly("r", &yes)}
	}
	extended := func(c *resourcev1.ResourceClaim) {
		c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true", resourcev1.PodResourceClaimAnnotation: "x"}
	}
	for name, tc := range map[string]struct {
		claim *resourcev1.ResourceClaim
		want  class
	}{
		"RCLM-28: of the user":      {claim(), class{}},
		"RCLM-28: allocated":        {claim(allocated), class{allocated: true}},
		"RCLM-28: admin access":     {claim(admin), class{adminAccess: true}},
		"RCLM-28: generated":        {claim(generatedFor("pod", "gpu")), class{source: "resource_claim_template"}},
		"RCLM-28: extended":         {claim(extended), class{source: "extended_resource"}},
		"RCLM-28: empty annotation": {claim(generatedFor("pod", "")), class{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, classOf(tc.claim), cmp.AllowUnexported(class{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
