package nodeipam

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

func refused(code int) error {
	err := apierrors.NewGenericServerResponse(code, "patch", schema.GroupResource{Resource: "nodes"}, "n", "refused", 0, false)
	return err
}

func TestAWriteFails(t *testing.T) {
	const failed = "Normal CIDRAssignmentFailed Node n status is now: CIDRAssignmentFailed"
	for name, tc := range map[string]struct {
		err    error
		tries  int
		events []string
		next   string // what another node gets
	}{
		"IPAM-19, IPAM-26: refused":     {refused(422), 3, []string{failed}, "[10.0.1.0/24]"},
		"IPAM-19, IPAM-26: forbidden":   {refused(403), 3, []string{failed}, "[10.0.1.0/24]"},
		"IPAM-42: it is gone":           {refused(404), 1, nil, "[10.0.1.0/24]"},
		"IPAM-19: nobody knows":         {refused(504), 3, []string{failed}, "[10.0.1.0/24]"},
		"IPAM-19: the server fails":     {refused(500), 3, []string{failed}, "[10.0.1.0/24]"},
		"IPAM-19: the connection fails": {errors.New("connection reset by peer"), 3, []string{failed}, "[10.0.1.0/24]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, single, node("n"), node("next"))
			allow := w.Refuse("patch nodes n", tc.err)
			err := w.reconcile(w.Context(), "n")
			if (err == nil) != (tc.events == nil) || err != nil && !errors.Is(err, tc.err) {
				t.Errorf("reconcile returns %v", err)
			}
			w.WantRequests(t, slices.Repeat([]string{"patch nodes n"}, tc.tries)...)
			w.WantEvents(t, tc.events...)
			wantCIDRs(t, w.allot(t, "next"), tc.next)
			allow()
		})
	}
}

// The instance ends while it writes. Pins IPAM-49.
func TestAWriteIsCutOff(t *testing.T) {
	w := newWorld(t, single, node("a", "10.0.2.0/23"), node("b", "10.0.1.0/24"), node("n"), node("next"))
	ctx, end := context.WithCancel(w.Context())
	w.Intercept("patch nodes n", func(clienttesting.Action) error {
		end()
		return context.Canceled
	})
	if err := w.reconcile(ctx, "n"); !errors.Is(err, context.Canceled) {
		t.Errorf("reconcile returns %v", err)
	}
	w.WantEvents(t)
	wantCIDRs(t, w.allot(t, "next"), "failed to allocate cidr from cluster cidr at idx:0: "+full)
}

// What was written, and is not shown for long, stays held when the same is written again and refused. Pins IPAM-19.
func TestARangeThatWasWrittenIsNotGivenToOthersWhenTheNextWriteIsRefused(t *testing.T) {
	w := newWorld(t, single, node("a", "10.0.2.0/23"), node("b", "10.0.1.0/24"), node("n"), node("next"))
	wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/24]")
	w.Env.Clock.Step(6 * time.Minute)
	controllertest.Change(t, w.Env, "", "n", func(n *corev1.Node) { n.Spec = corev1.NodeSpec{} })
	w.Refuse("patch nodes n", refused(403))
	w.allot(t, "n")
	wantCIDRs(t, w.allot(t, "next"), "failed to allocate cidr from cluster cidr at idx:0: "+full)
}

// An admission webhook says that a node is gone, which is there, and no event of it follows. Pins IPAM-42.
func TestANodeThatIsSaidToBeGoneIsTriedAgain(t *testing.T) {
	w := newWorld(t, single, node("n"), node("next"))
	w.Queue(t)
	allow := w.Refuse("patch nodes n", refused(404))
	wantCIDRs(t, w.allot(t, "n"), "[]")
	w.queued.Want(t, "n in 10s")
	wantCIDRs(t, w.allot(t, "next"), "[10.0.1.0/24]")
	allow()
	wantCIDRs(t, w.allot(t, "n"), "[10.0.2.0/24]")
}

// Either a namesake has come, which the cache will show, or others change the node. Pins IPAM-42.
func TestAConflictIsTriedAgain(t *testing.T) {
	w := newWorld(t, single, node("n"), node("next"))
	allow := w.Refuse("patch nodes n", refused(409))
	if err := w.reconcile(w.Context(), "n"); !reconcile.IsExpected(err) {
		t.Errorf("reconcile returns %v, want a requeue", err)
	}
	w.WantRequests(t, "patch nodes n")
	w.WantEvents(t)
	wantCIDRs(t, w.allot(t, "next"), "[10.0.1.0/24]")
	allow()
	wantCIDRs(t, w.allot(t, "n"), "[10.0.2.0/24]")
}

// Pins IPAM-19 and IPAM-31.
func TestARangeOfAWriteWithUnknownOutcomeIsNotGivenToOthers(t *testing.T) {
	const held = "failed to allocate cidr from cluster cidr at idx:0: " + full
	lost := errors.New("unexpected EOF")
	for name, tc := range map[string]struct {
		errs []error // of one reconciliation after another
		want string
	}{
		"IPAM-19: refused":                               {[]error{refused(422)}, "[10.0.0.0/24]"},
		"IPAM-19: nobody knows":                          {[]error{refused(504)}, held},
		"IPAM-19: nobody answers":                        {[]error{lost}, held},
		"IPAM-19: nobody answers, then refused":          {[]error{lost, refused(403)}, held},
		"IPAM-19: nobody answers, then too often":        {[]error{lost, refused(429), refused(401)}, held},
		"IPAM-42: nobody answers, then others change it": {[]error{lost, refused(409)}, held},
		"IPAM-42: nobody answers, then it is gone":       {[]error{lost, refused(404)}, held},
		"IPAM-42: others change it, then refused":        {[]error{refused(409), refused(422)}, "[10.0.0.0/24]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, single, node("a", "10.0.2.0/23"), node("b", "10.0.1.0/24"), node("n"), node("next"))
			allow := func() {}
			for _, err := range tc.errs {
				allow()
				allow = w.Refuse("patch nodes n", err)
				w.allot(t, "n")
			}
			wantCIDRs(t, w.allot(t, "next"), tc.want)
			allow()
			if tc.want == held {
				wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/24]")
			}
		})
	}
}
