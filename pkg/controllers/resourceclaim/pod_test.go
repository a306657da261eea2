package resourceclaim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
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
			c := must.Get(newController(env.Env, defaults))(t)
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

// An admission webhook takes the owner of each new claim away. Pins RCLM-75.
func TestAClaimWithAnotherOwnerIsAFailure(t *testing.T) {
	s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template())
	s.Intercept("create resourceclaims", func(action clienttesting.Action) error {
		action.(clienttesting.CreateAction).GetObject().(*resourcev1.ResourceClaim).OwnerReferences = nil
		return nil
	})
	if err := s.Reconcile(); err == nil || reconcile.IsExpected(err) || !strings.Contains(err.Error(), "admission webhook") {
		t.Errorf("error is %v, want a failure", err)
	}
	s.WantRequests(t, creating)
}
