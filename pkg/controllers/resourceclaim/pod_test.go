package resourceclaim

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

const (
	creating  = "create resourceclaims pod-gpu-"
	recording = "patch pods/status pod"
)

func TestClaimsOfAPod(t *testing.T) {
	gpu := ofTemplate("gpu", "template")
	needs := with(gpu)
	other := generatedFor("another", "gpu")
	for name, tc := range map[string]struct {
		config   config
		objects  []runtime.Object
		requests []string
		statuses []string // entry and claim in turn
		err      string
		event    string
	}{
		"RCLM-18f, RCLM-18g, RCLM-18h: the claim is generated": {
			defaults, []runtime.Object{pod(needs), template()}, []string{creating, recording}, []string{"gpu", "pod-gpu-1"}, "", "",
		},
		"RCLM-18b, RCLM-43: a claim of the user is not recorded": {
			defaults, []runtime.Object{pod(with(ofClaim("gpu", "claim"))), claim()}, nil, nil, "", "",
		},
		"RCLM-18b: nor created": {
			defaults, []runtime.Object{pod(with(ofClaim("gpu", "claim")))}, nil, nil, "", "",
		},
		"RCLM-18a, RCLM-44: an entry that needs no claim": {
			defaults, []runtime.Object{pod(needs, notNeeded("gpu"))}, nil, []string{"gpu", ""}, "", "",
		},
		"RCLM-18a: recorded, and it exists": {
			defaults, []runtime.Object{pod(needs, recorded("gpu", "claim")), template(), claim(generatedFor("pod", "gpu"))}, nil, []string{"gpu", "claim"}, "", "",
		},
		"RCLM-18a, RCLM-51: recorded, and gone": {
			defaults, []runtime.Object{pod(needs, recorded("gpu", "claim")), template()},
			[]string{"get resourceclaims claim", creating, recording}, []string{"gpu", "pod-gpu-1"}, "", "",
		},
		"RCLM-18a: recorded, but that of another pod": {
			defaults, []runtime.Object{pod(needs, recorded("gpu", "claim")), template(), claim(other)}, []string{creating, recording}, []string{"gpu", "pod-gpu-1"}, "", "",
		},
		"RCLM-18a: a claim that only has the expected name is another": {
			defaults, []runtime.Object{pod(needs), template(), claim(named("pod-gpu"))}, []string{creating, recording}, []string{"gpu", "pod-gpu-1"}, "", "",
		},
		"RCLM-18a: an entry of an unknown kind": {
			defaults, []runtime.Object{pod(with(entry{Name: "gpu"}))}, nil, nil,
			`pod ns/pod, PodResourceClaim gpu: checking for claim before creating it: pod "ns/pod", spec.resourceClaim "gpu": none of the supported fields are set`,
			`Warning FailedResourceClaimCreation PodResourceClaim gpu: checking for claim before creating it: pod "ns/pod", spec.resourceClaim "gpu": none of the supported fields are set`,
		},
		"RCLM-18e: one that was generated is adopted": {
			defaults, []runtime.Object{pod(needs), template(), claim(generatedFor("pod", "gpu"))}, []string{recording}, []string{"gpu", "claim"}, "", "",
		},
		"RCLM-18e: but not for another entry": {
			defaults, []runtime.Object{pod(needs), template(), claim(generatedFor("pod", "nic"))}, []string{creating, recording}, []string{"gpu", "pod-gpu-1"}, "", "",
		},
		"RCLM-18e: nor without the annotation": {
			defaults, []runtime.Object{pod(needs), template(), claim(generatedFor("pod", "gpu"), func(c *resourcev1.ResourceClaim) { c.Annotations = nil })},
			[]string{creating, recording}, []string{"gpu", "pod-gpu-1"}, "", "",
		},
		"RCLM-33: of two the same is chosen each time": {
			defaults, []runtime.Object{pod(needs), claim(generatedFor("pod", "gpu"), named("b")), claim(generatedFor("pod", "gpu"), named("a"))},
			[]string{recording}, []string{"gpu", "a"}, "", "",
		},
		"RCLM-18f, RCLM-18i, RCLM-28: no template, later entries are not tried": {
			defaults, []runtime.Object{pod(with(gpu, ofTemplate("nic", "missing"), ofTemplate("nic2", "template"))), template()}, []string{creating}, nil,
			`pod ns/pod, PodResourceClaim nic: resource claim template "missing": resourceclaimtemplate.resource.k8s.io "missing" not found`,
			`Warning FailedResourceClaimCreation PodResourceClaim nic: resource claim template "missing": resourceclaimtemplate.resource.k8s.io "missing" not found`,
		},
		"RCLM-18, RCLM-19: several, with one that was recorded": {
			defaults, []runtime.Object{pod(with(gpu, ofTemplate("nic", "template"), ofClaim("x", "y")), recorded("nic", "claim")), template(), claim(generatedFor("pod", "nic"))},
			[]string{creating, recording}, []string{"nic", "claim", "gpu", "pod-gpu-1"}, "", "",
		},
		"RCLM-17: it is gone":          {defaults, nil, nil, nil, "", ""},
		"RCLM-17: it is being deleted": {defaults, []runtime.Object{pod(needs, controllertest.OnNode("node"), controllertest.Terminating), template()}, nil, nil, "", ""},
		"RCLM-30: it has succeeded":    {defaults, []runtime.Object{pod(needs, controllertest.InPhase(corev1.PodSucceeded)), template()}, nil, nil, "", ""},
		"RCLM-30: it has failed":       {defaults, []runtime.Object{pod(needs, controllertest.InPhase(corev1.PodFailed)), template()}, nil, nil, "", ""},
		"RCLM-17: its group is unknown": {
			gated, []runtime.Object{pod(needs, inGroup("group")), template()}, nil, nil, `get PodGroup for Pod ns/pod: podgroup.scheduling.k8s.io "group" not found`, "",
		},
		"RCLM-17: its group is unknown, without the gate": {
			defaults, []runtime.Object{pod(needs, inGroup("group")), template()}, []string{creating, recording}, []string{"gpu", "pod-gpu-1"}, "", "",
		},
		"RCLM-18c, RCLM-18d: that of the group is recorded": {
			gated, []runtime.Object{pod(needs, inGroup("group")), group(groupWith(gpu)), template(), claim(generatedForGroup("group", "gpu"))}, []string{recording}, []string{"gpu", "claim"}, "", "",
		},
		"RCLM-18d: the group has none yet": {
			gated, []runtime.Object{pod(needs, inGroup("group")), group(groupWith(gpu)), template()}, nil, nil, "", "",
		},
		"RCLM-18d: that of a former group of the name": {
			gated, []runtime.Object{pod(needs, inGroup("group")), group(groupWith(gpu)), template(), claim(generatedForGroup("former", "gpu"))}, nil, nil, "", "",
		},
		"RCLM-18c: another entry of the group": {
			gated, []runtime.Object{pod(needs, inGroup("group")), group(groupWith(ofTemplate("gpu", "other"))), template()}, []string{creating, recording}, []string{"gpu", "pod-gpu-1"}, "", "",
		},
		"RCLM-18c: a claim of the group, without the gate": {
			defaults, []runtime.Object{pod(needs, inGroup("group")), group(groupWith(gpu)), template()}, []string{creating, recording}, []string{"gpu", "pod-gpu-1"}, "", "",
		},
		"RCLM-38: that of another pod, of a pod without a group": {
			gated, []runtime.Object{pod(needs, recorded("gpu", "claim")), template(), claim(other)}, []string{creating, recording}, []string{"gpu", "pod-gpu-1"}, "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, tc.config, podKey, tc.objects...)
			if got := errorText(s.Reconcile()); got != tc.err {
				t.Errorf("got the error %q, want %q", got, tc.err)
			}
			s.WantRequests(t, tc.requests...)
			if tc.event == "" {
				s.WantEvents(t)
			} else {
				s.WantEvents(t, tc.event)
			}
			wantStatuses(t, s, tc.statuses)
		})
	}
}

func wantStatuses(t *testing.T, s *subject, want []string) {
	t.Helper()
	p, ok := controllertest.Stored[*corev1.Pod](t, s.Env, "ns", "pod")
	if !ok {
		return
	}
	var got []string
	for _, entry := range p.Status.ResourceClaimStatuses {
		name := ""
		if entry.ResourceClaimName != nil {
			name = *entry.ResourceClaimName
		}
		got = append(got, entry.Name, name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded are %q, want %q", got, want)
	}
}

// Pins RCLM-19 and RCLM-52.
func TestTheStatusIsApplied(t *testing.T) {
	s := begin(t, defaults, podKey, pod(with(ofTemplate("nic", "template"), ofTemplate("gpu", "template"), ofTemplate("x", "template")), recorded("nic", "claim"), notNeeded("x")),
		template(), claim(generatedFor("pod", "nic")))
	s.MustReconcile(t)
	patch := s.Fake.Actions()[1].(clienttesting.PatchActionImpl)
	want := `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"pod","namespace":"ns","uid":"pod"},"status":{"resourceClaimStatuses":` +
		`[{"name":"nic","resourceClaimName":"claim"},{"name":"x"},{"name":"gpu","resourceClaimName":"pod-gpu-1"}]}}`
	if string(patch.Patch) != want || patch.PatchType != "application/apply-patch+yaml" {
		t.Errorf("patched with %s %s", patch.PatchType, patch.Patch)
	}
	if o := patch.PatchOptions; o.FieldManager != "ResourceClaimController" || o.Force == nil || !*o.Force {
		t.Errorf("with %+v", o)
	}
}

// Pins RCLM-19 and RCLM-52.
func TestAFailedRecord(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		retry bool
	}{
		"the pod is another": {apierrors.NewConflict(corev1.Resource("pods"), "pod", errors.New("uid")), true},
		"the pod is gone":    {apierrors.NewNotFound(corev1.Resource("pods"), "pod"), true},
		"anything else":      {errors.New("boom"), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template())
			s.Refuse(recording, tc.err)
			err := s.Reconcile()
			if errorText(err) != "update pod ns/pod ResourceClaimStatuses: "+tc.err.Error() || reconcile.IsExpected(err) != tc.retry {
				t.Errorf("got %v", err)
			}
			s.WantEvents(t)
			s.Requests()
			_ = s.Reconcile()
			s.WantRequests(t, recording) // the claim was created before
		})
	}
}

// An admission webhook may answer with NotFound for as long as it likes: no event tells when it stops. Pins RCLM-68.
func TestAWriteThatIsNotFoundIsTriedAgainSoon(t *testing.T) {
	for name, tc := range map[string]struct {
		refused string
		objects []runtime.Object
	}{
		"the status of a pod":   {recording, []runtime.Object{pod(with(ofTemplate("gpu", "template"))), template()}},
		"the status of a claim": {ending, []runtime.Object{claim(inUse("gone"))}},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t, tc.objects...)
			env.CompleteWrites("resourceclaims")
			env.Refuse(tc.refused, apierrors.NewNotFound(corev1.Resource("things"), "thing"))
			c, err := newController(env.Env, defaults)
			if err != nil {
				t.Fatal(err)
			}
			env.Start(t)
			env.Run(t, c)
			var longest time.Duration
			env.EventuallyAsTimePasses(t, "the write is refused often", time.Second, func() bool {
				for _, waiting := range c.loop.Keys(func(string) bool { return true }) {
					if waiting.State == controller.KeyDelayed {
						longest = max(longest, waiting.Until.Sub(env.Clock.Now()))
					}
				}
				return len(env.Writes()) > 15
			})
			if longest > reconcile.RecheckAfter {
				t.Errorf("it is tried again in %v", longest)
			}
		})
	}
}

// The cache shows nothing of what is written. Pins RCLM-33 and RCLM-50.
func TestAStaleCacheCausesNoSecondClaim(t *testing.T) {
	s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template())
	s.MustReconcile(t)
	s.WantRequests(t, creating, recording)
	s.MustReconcile(t)
	s.WantRequests(t, recording)

	s.Env.CatchUp(t, &corev1.Pod{}) // the name arrives before the claim
	s.MustReconcile(t)
	s.WantRequests(t)

	s.Succeed(s.c.HandOver())
	s.succeed(t, defaults)
	s.MustReconcile(t)
	s.WantRequests(t)

	s.CatchUp(t)
	s.MustReconcile(t)
	s.WantRequests(t)
}

// A pod is replaced by one of the same name; the claim of the first is still being freed. Pins RCLM-50.
func TestTheClaimOfAFormerPodDoesNotMakeThatOfTheNextForgotten(t *testing.T) {
	s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template())
	s.MustReconcile(t)
	s.WantRequests(t, creating, recording)
	h := handlersOf(s)
	former := claim(generatedFor("former", "gpu"))
	h.claims.OnUpdate(former, former)
	h.claims.OnDelete(former)
	h.pods.OnDelete(pod(with(ofTemplate("gpu", "template")), uid[*corev1.Pod]("former")))
	s.MustReconcile(t)
	s.WantRequests(t, recording)
}

// The claim comes and goes while the watch of claims is broken: no event reports it. Pins RCLM-61.
func TestAClaimThatTheCacheNeverShows(t *testing.T) {
	s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template())
	s.MustReconcile(t)
	s.Env.CatchUp(t, &corev1.Pod{})
	s.MustReconcile(t)
	if queued := s.Queued.Take(); !slices.Equal(queued, []string{"pod:ns/pod in 10s"}) {
		t.Errorf("queued %q", queued)
	}
	s.Remove(t, stored(t, s, "pod-gpu-1"))
	s.NextVersion() // that of the deletion
	s.CatchUp(t)
	s.MustReconcile(t)
	wantStatuses(t, s, []string{"gpu", "pod-gpu-2"})
}

// Pins RCLM-31 and RCLM-50.
func TestAFreshClaimThatIsDeletedIsCreatedAgain(t *testing.T) {
	s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template())
	s.MustReconcile(t)
	s.Remove(t, stored(t, s, "pod-gpu-1"))
	s.NextVersion() // that of the deletion
	s.CatchUp(t)
	s.MustReconcile(t)
	s.WantRequests(t, "get resourceclaims pod-gpu-1", creating, recording)
	wantStatuses(t, s, []string{"gpu", "pod-gpu-2"})
}

// A predecessor in another process recorded a claim that the cache does not show. Pins RCLM-51.
func TestARecordedClaimThatIsNotCachedIsLookedUpLive(t *testing.T) {
	s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template")), recorded("gpu", "claim")), template(), claim(generatedFor("pod", "gpu")))
	s.EmptyCache(t, claim(), "1")
	s.MustReconcile(t)
	s.WantRequests(t, "get resourceclaims claim")
	s.Queued.Want(t, "pod:ns/pod in 10s") // the claim may be gone before the cache shows it
	s.Refuse("get resourceclaims", errors.New("boom"))
	if err := s.Reconcile(); err == nil {
		t.Error("no error")
	}
	s.WantRequests(t, "get resourceclaims claim")
}

// Pins RCLM-50.
func TestAClaimWhoseCreationMayHaveSucceededIsNotCreatedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		err      error
		succeeds bool
		requests []string
	}{
		"it did":     {errors.New("the connection broke"), true, []string{"list resourceclaims", recording}},
		"it did not": {apierrors.NewTimeoutError("slow", 1), false, []string{"list resourceclaims", creating, recording}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template())
			allow := s.Refuse(creating, tc.err)
			if err := s.Reconcile(); err == nil {
				t.Fatal("no error")
			}
			allow()
			s.RecordedEvents()
			if tc.succeeds {
				s.Store(t, claim(generatedFor("pod", "gpu"), named("pod-gpu-x")), claim(generatedFor("another", "gpu"), named("pod-gpu-y")))
			}
			s.Requests()
			s.Succeed(s.c.HandOver())
			s.succeed(t, defaults)
			s.MustReconcile(t) // while it may take effect
			s.WantRequests(t)
			s.Queued.Want(t, "pod:ns/pod in 1s")
			s.Clock.Step(settling)
			s.MustReconcile(t)
			s.WantRequests(t, tc.requests...)
			if tc.succeeds {
				wantStatuses(t, s, []string{"gpu", "pod-gpu-x"})
			}
			s.MustReconcile(t)
			s.WantRequests(t, recording)
		})
	}
}

// Pins RCLM-64.
func TestDoubtsAboutOwnersThatAreGone(t *testing.T) {
	for name, tc := range map[string]struct {
		owner  types.UID
		cached runtime.Object // nil if it is not
		gone   bool
		after  time.Duration
		want   bool
	}{
		"a pod is cached":                      {"pod", pod(), false, time.Hour, true},
		"a group is cached":                    {"group", group(), false, time.Hour, true},
		"another group is cached":              {"another", group(), false, time.Hour, false},
		"the cache lacks it":                   {"pod", nil, false, doubtTTL - 1, true},
		"the cache lacks it for long":          {"pod", nil, false, doubtTTL, false},
		"it was deleted before the succession": {"pod", pod(), true, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, gated, podKey)
			doubted := func() bool {
				_, ok := s.c.memory.doubts.age(tc.owner)
				return ok
			}
			s.c.memory.doubt(tc.owner)
			if !doubted() {
				t.Fatal("there is no doubt")
			}
			s.Clock.Step(tc.after)
			if tc.cached != nil {
				s.Cache(t, tc.cached)
			}
			left := s.c.HandOver()
			if tc.gone {
				left.gone[tc.owner] = s.Clock.Now()
			}
			s.Succeed(left)
			s.succeed(t, gated)
			if doubted() != tc.want {
				t.Errorf("there is a doubt: %t", doubted())
			}
		})
	}
}

// Pins RCLM-64.
func TestAnOwnerThatIsDeletedDuringACreate(t *testing.T) {
	p := pod(with(ofTemplate("gpu", "template")))
	s := begin(t, defaults, podKey, p, template())
	s.Fake.PrependReactor("create", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		s.c.podGone(p)
		return true, nil, errors.New("the connection broke")
	})
	if err := s.Reconcile(); err == nil {
		t.Fatal("no error")
	}
	if left := s.c.memory.doubts.state(); len(left) > 0 {
		t.Errorf("doubts are left: %v", left)
	}
}

// A claim may say that it belongs to a pod of another namespace. Pins RCLM-63.
func TestAClaimOfAnotherNamespaceIsNotThatOfThePod(t *testing.T) {
	foreign := claim(generatedFor("pod", "gpu"), named("foreign"), func(c *resourcev1.ResourceClaim) { c.Namespace = "other" })
	s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template(), foreign)
	s.MustReconcile(t)
	s.WantRequests(t, creating, recording)

	s.Queued.Clear()
	s.c.enqueueGeneratedFor(reconcile.Backlog, pod())
	s.Queued.Want(t)
}

// The claim cannot have been created, so that nothing is to be found out before the next attempt. Pins RCLM-50.
func TestAClaimThatWasNotSentIsCreatedAtOnce(t *testing.T) {
	for name, refusal := range map[string]error{
		"its namespace is paused": &controller.PausedError{Namespace: "ns"},
		"nobody listens":          syscall.ECONNREFUSED,
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template())
			allow := s.Refuse(creating, refusal)
			if err := s.Reconcile(); !errors.Is(err, refusal) {
				t.Fatalf("got %v", err)
			}
			allow()
			s.Requests()
			s.MustReconcile(t)
			s.WantRequests(t, creating, recording)
		})
	}
}

// Pins RCLM-18g, RCLM-18i and RCLM-28.
func TestARefusedClaim(t *testing.T) {
	yes := true
	s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template(func(t *resourcev1.ResourceClaimTemplate) {
		t.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{exactly("r", &yes)}
	}))
	allow := s.Refuse(creating, apierrors.NewForbidden(resourcev1.Resource("resourceclaims"), "", errors.New("no")))
	const text = `PodResourceClaim gpu: create ResourceClaim : resourceclaims.resource.k8s.io is forbidden: no`
	if got := errorText(s.Reconcile()); got != "pod ns/pod, "+text {
		t.Errorf("got %q", got)
	}
	s.WantEvents(t, "Warning FailedResourceClaimCreation "+text)
	allow()
	s.Requests()
	s.MustReconcile(t)
	s.WantRequests(t, creating, recording)
	want := []string{"admin_access=true status=failure 1", "admin_access=true status=success 1"}
	if got := s.Series(t, "resourceclaim_controller_creates_total"); !slices.Equal(got, want) {
		t.Errorf("counted %q", got)
	}
}

func TestReserve(t *testing.T) {
	const reserving = "update resourceclaims/status claim"
	onNode := controllertest.OnNode("node")
	static := with(ofClaim("gpu", "claim"))
	for name, tc := range map[string]struct {
		config   config
		objects  []runtime.Object
		requests []string
		want     []consumer
		err      string
	}{
		"RCLM-21: allocated":                   {defaults, []runtime.Object{pod(onNode, static), claim(inUse())}, []string{reserving}, []consumer{{Resource: "pods", Name: "pod", UID: "pod"}}, ""},
		"RCLM-21: for one more":                {defaults, []runtime.Object{pod(onNode, static), claim(inUse("a"))}, []string{reserving}, []consumer{{Resource: "pods", Name: "a", UID: "a"}, {Resource: "pods", Name: "pod", UID: "pod"}}, ""},
		"RCLM-21: generated":                   {defaults, []runtime.Object{pod(onNode, with(ofTemplate("gpu", "template")), recorded("gpu", "claim")), claim(inUse(), generatedFor("pod", "gpu"))}, []string{reserving}, []consumer{{Resource: "pods", Name: "pod", UID: "pod"}}, ""},
		"RCLM-21: reserved":                    {defaults, []runtime.Object{pod(onNode, static), claim(inUse("pod"))}, nil, []consumer{{Resource: "pods", Name: "pod", UID: "pod"}}, ""},
		"RCLM-72: being deleted":               {defaults, []runtime.Object{pod(onNode, static), claim(inUse("a"), terminating)}, nil, []consumer{{Resource: "pods", Name: "a", UID: "a"}}, ""},
		"RCLM-21: not allocated":               {defaults, []runtime.Object{pod(onNode, static), claim()}, nil, nil, ""},
		"RCLM-20: no node":                     {defaults, []runtime.Object{pod(static), claim(inUse())}, nil, nil, ""},
		"RCLM-21: not needed":                  {defaults, []runtime.Object{pod(onNode, with(ofTemplate("x", "template"), ofClaim("gpu", "claim")), notNeeded("x")), claim(inUse())}, []string{reserving}, []consumer{{Resource: "pods", Name: "pod", UID: "pod"}}, ""},
		"RCLM-21: ends at one that is missing": {defaults, []runtime.Object{pod(onNode, with(ofClaim("x", "missing"), ofClaim("gpu", "claim"))), claim(inUse())}, nil, nil, ""},
		"RCLM-30: done":                        {defaults, []runtime.Object{pod(onNode, static, controllertest.InPhase(corev1.PodSucceeded)), claim(inUse("a"))}, nil, []consumer{{Resource: "pods", Name: "a", UID: "a"}}, ""},
		"RCLM-21: for the group": {
			gated, []runtime.Object{pod(onNode, static, inGroup("group")), group(groupWith(ofClaim("gpu", "claim"))), claim(inUse())}, []string{reserving},
			[]consumer{{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "group", UID: "group"}}, "",
		},
		"RCLM-21: for the pod, without the gate": {
			defaults, []runtime.Object{pod(onNode, static, inGroup("group")), group(groupWith(ofClaim("gpu", "claim"))), claim(inUse())}, []string{reserving}, []consumer{{Resource: "pods", Name: "pod", UID: "pod"}}, "",
		},
		"RCLM-21: reserved for the group": {
			gated, []runtime.Object{pod(onNode, static, inGroup("group")), group(groupWith(ofClaim("gpu", "claim"))), claim(inUse(), reservedForGroup)}, nil,
			[]consumer{{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "group", UID: "group"}}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, tc.config, podKey, tc.objects...)
			if got := errorText(s.Reconcile()); got != tc.err {
				t.Errorf("got the error %q, want %q", got, tc.err)
			}
			s.WantRequests(t, tc.requests...)
			if diff := cmp.Diff(tc.want, stored(t, s, "claim").Status.ReservedFor); diff != "" {
				t.Errorf("reserved for: %s", diff)
			}
		})
	}
}

// Claims that were generated in the same pass are not allocated yet. Pins RCLM-21.
func TestAPodOnANodeGetsItsClaimsWithoutAnError(t *testing.T) {
	s := begin(t, defaults, podKey, pod(controllertest.OnNode("node"), with(ofTemplate("gpu", "template"))), template())
	s.MustReconcile(t)
	s.WantRequests(t, creating, recording)
}

// Two pods reserve a claim before the cache shows the first reservation. Pins RCLM-53.
func TestReservingFromOnesOwnWrite(t *testing.T) {
	other := pod(controllertest.OnNode("node"), with(ofClaim("gpu", "claim")), uid[*corev1.Pod]("other"), func(p *corev1.Pod) { p.Name = "other" })
	s := begin(t, defaults, podKey, pod(controllertest.OnNode("node"), with(ofClaim("gpu", "claim"))), other, claim(inUse()))
	s.CheckWrites("resourceclaims")
	s.MustReconcile(t)
	s.Key.Name = "other"
	s.MustReconcile(t)
	s.WantRequests(t, "update resourceclaims/status claim", "update resourceclaims/status claim")
	if got := stored(t, s, "claim").Status.ReservedFor; len(got) != 2 {
		t.Errorf("reserved for %v", got)
	}
}

// While a pod waits for its turn, the cache comes to show the reservations of others. Pins RCLM-53.
func TestReservingFromWhatTheCacheShowsByThen(t *testing.T) {
	p := pod(controllertest.OnNode("node"), with(ofClaim("gpu", "claim")))
	before := claim(inUse())
	s := begin(t, defaults, podKey, p, claim(inUse("a"), func(c *resourcev1.ResourceClaim) { c.ResourceVersion = "2" }))
	s.CheckWrites("resourceclaims")
	if err := s.c.reserveClaim(s.Context(), p, before, consumer{Resource: "pods", Name: "pod", UID: "pod"}); err != nil {
		t.Fatal(err)
	}
	if got := stored(t, s, "claim").Status.ReservedFor; len(got) != 2 {
		t.Errorf("reserved for %v", got)
	}
	s.Requests()
	s.EmptyCache(t, claim(), "2000")
	if err := s.c.reserveClaim(s.Context(), p, before, consumer{Resource: "pods", Name: "pod", UID: "pod"}); err != nil {
		t.Fatal(err)
	}
	s.WantRequests(t)
}

// Pins RCLM-21 and RCLM-41.
func TestAReservationThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		retry bool
	}{
		"it has changed": {apierrors.NewConflict(resourcev1.Resource("resourceclaims"), "claim", errors.New("changed")), true},
		"it is full":     {apierrors.NewInvalid(resourcev1.SchemeGroupVersion.WithKind("ResourceClaim").GroupKind(), "claim", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, defaults, podKey, pod(controllertest.OnNode("node"), with(ofClaim("gpu", "claim"))), claim(inUse()))
			s.Refuse("update resourceclaims/status", tc.err)
			err := s.Reconcile()
			if errorText(err) != "reserve claim ns/claim: "+tc.err.Error() || reconcile.IsExpected(err) != tc.retry {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestClaimsOfAPodGroup(t *testing.T) {
	const creating, recording = "create resourceclaims group-gpu-", "patch podgroups/status group"
	gpu := groupWith(ofTemplate("gpu", "template"))
	for name, tc := range map[string]struct {
		objects  []runtime.Object
		requests []string
		claim    string
		err      string
	}{
		"RCLM-22: generated":          {[]runtime.Object{group(gpu), template()}, []string{creating, recording}, "group-gpu-1", ""},
		"RCLM-22: adopted":            {[]runtime.Object{group(gpu), template(), claim(generatedForGroup("group", "gpu"))}, []string{recording}, "claim", ""},
		"RCLM-22: of a former group":  {[]runtime.Object{group(gpu), template(), claim(generatedForGroup("former", "gpu"))}, []string{creating, recording}, "group-gpu-1", ""},
		"RCLM-22: recorded":           {[]runtime.Object{group(gpu, groupRecorded("gpu", "claim")), claim(generatedForGroup("group", "gpu"))}, nil, "claim", ""},
		"RCLM-22: recorded, and gone": {[]runtime.Object{group(gpu, groupRecorded("gpu", "claim")), template()}, []string{"get resourceclaims claim", creating, recording}, "group-gpu-1", ""},
		"RCLM-22: that of the user":   {[]runtime.Object{group(groupWith(ofClaim("gpu", "claim")))}, nil, "", ""},
		"RCLM-22: being deleted": {[]runtime.Object{group(gpu, func(g *schedulingv1alpha2.PodGroup) {
			g.DeletionTimestamp, g.Finalizers = &metav1.Time{Time: controllertest.Epoch}, []string{"a/b"}
		}), template()}, nil, "", ""},
		"RCLM-22, RCLM-28: no template": {[]runtime.Object{group(gpu)}, nil, "",
			`PodGroup ns/group, PodGroupResourceClaim gpu: resource claim template "template": resourceclaimtemplate.resource.k8s.io "template" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, gated, groupKey, tc.objects...)
			if got := errorText(s.Reconcile()); got != tc.err {
				t.Errorf("got the error %q, want %q", got, tc.err)
			}
			s.WantRequests(t, tc.requests...)
			if tc.err != "" {
				s.WantEvents(t, `Warning FailedResourceClaimCreation PodGroupResourceClaim gpu: resource claim template "template": resourceclaimtemplate.resource.k8s.io "template" not found`)
			}
			got := ""
			for _, entry := range controllertest.MustStored[*schedulingv1alpha2.PodGroup](t, s.Env, "ns", "group").Status.ResourceClaimStatuses {
				got += *entry.ResourceClaimName
			}
			if got != tc.claim {
				t.Errorf("recorded is %q", got)
			}
		})
	}
}

// Pins RCLM-22.
func TestTheStatusOfAPodGroupThatFails(t *testing.T) {
	s := begin(t, gated, groupKey, group(groupWith(ofTemplate("gpu", "template"))), template())
	s.Refuse("patch podgroups/status", errors.New("boom"))
	if got := errorText(s.Reconcile()); got != "update PodGroup ns/group ResourceClaimStatuses: boom" {
		t.Errorf("got %q", got)
	}
}

// Pins RCLM-67.
func TestACutOffRequestReportsNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		config  config
		key     key
		objects []runtime.Object
	}{
		"a pod":      {defaults, podKey, []runtime.Object{pod(with(ofTemplate("gpu", "template"))), template()}},
		"a PodGroup": {gated, groupKey, []runtime.Object{group(groupWith(ofTemplate("gpu", "template"))), template()}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, tc.config, tc.key, tc.objects...)
			ctx, cancel := context.WithCancel(s.Context())
			s.Intercept("create resourceclaims", func(clienttesting.Action) error {
				cancel()
				return context.Canceled
			})
			if err := s.Work(ctx, tc.key); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			s.WantEvents(t)
		})
	}
}
