package resourceclaim

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

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
		"RCLM-74: as many as there can be": {
			defaults, []runtime.Object{pod(onNode, with(ofClaim("x", "full"), ofClaim("gpu", "claim"))), claim(named("full"), full), claim(inUse())}, []string{reserving},
			[]consumer{{Resource: "pods", Name: "pod", UID: "pod"}}, "",
		},
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
