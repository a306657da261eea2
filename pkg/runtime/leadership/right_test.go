package leadership

import (
	"context"
	"errors"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/takeover"
	"kcmd.dev/test/await"
	"kcmd.dev/test/fakeclient"
	"kcmd.dev/test/must"
)

// A process that may not write its lease does not say that another one holds it. Pins MGR-253.
func TestWhyALockIsNotHeld(t *testing.T) {
	cfg := v1beta1.NewDefault()
	for name, test := range map[string]struct {
		verb, holder string // what is forbidden, and who holds the lease
		want         string
	}{
		"it may not be created":    {"create", "", "the lease cannot be taken: writing lease: "},
		"it may not be read":       {"get", "", "the lease cannot be taken: reading lease: "},
		"another process holds it": {"update", "other", "another process holds the lease"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fakeclient.New()
			if test.holder != "" {
				now := metav1.NowMicro()
				client = fakeclient.New(&coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: cfg.LeaderElection.ResourceNamespace, Name: cfg.LeaderElection.ResourceName},
					Spec: coordinationv1.LeaseSpec{HolderIdentity: &test.holder, LeaseDurationSeconds: ptr.To[int32](3600),
						AcquireTime: &now, RenewTime: &now},
				})
			}
			client.PrependReactor(test.verb, "leases", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
				return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "", errors.New("no"))
			})
			l := New(Options{Identity: must.Get(NewIdentity())(t), Runner: &runner{}, Tasks: tasks(t), Clock: clock.RealClock{}})
			conn := electing{remembering{ledger: takeover.NewLedger(clock.RealClock{})}, client}
			next := must.Get(l.Prepare(conn, cfg, func(string) []string { return nil }))(t)
			l.Adopt(t.Context(), next, cfg, func(string) []string { return nil })
			t.Cleanup(func() { _ = next[0].resign(context.Background()) })
			await.True(t, "it has tried", func() bool { return next[0].elector.State().Decided })
			if got := next[0].right(); got.Term != 0 || !strings.HasPrefix(got.Reason, test.want) {
				t.Errorf("the reason is %q, want %q", got.Reason, test.want)
			}
		})
	}
}

func TestWhyAControllerMayNotRun(t *testing.T) {
	only := func(name string) bool { return name == "a" }
	for name, tc := range map[string]struct {
		right Right
		want  string
	}{
		"the lock is not held":                 {Right{}, "the lock is not held"},
		"it is not held for a reason":          {Right{Reason: "so"}, "so"},
		"not held, although all are granted":   {Right{Reason: "so", Granted: func(string) bool { return true }}, "so"},
		"everything may run":                   {Right{Term: 1}, ""},
		"another may run":                      {Right{Term: 1, Granted: only}, "checking whether another process still runs it"},
		"it is known who blocks it":            {Right{Term: 1, Granted: only, Blocked: map[string]string{"b": "other still runs it"}, Reason: "so"}, "other still runs it"},
		"it is known who blocks another":       {Right{Term: 1, Granted: only, Blocked: map[string]string{"c": "other still runs it"}, Reason: "so"}, "so"},
		"granted, although somebody blocks it": {Right{Term: 1, Granted: func(string) bool { return true }, Blocked: map[string]string{"b": "other still runs it"}}, ""},
	} {
		if got := tc.right.Refuses("b"); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
