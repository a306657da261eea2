package leadership

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/takeover"
	"kcmd.dev/test/await"
	"kcmd.dev/test/fakeclient"
	"kcmd.dev/test/must"
)

// A process that holds a lease and may not find out what others run starts nothing. Pins MGR-208.
func TestAHolderThatCannotReadClaimsIsNotHealthy(t *testing.T) {
	conn := electing{remembering{ledger: takeover.NewLedger(clock.RealClock{})}, fakeclient.New()}
	var forbidden atomic.Bool
	forbidden.Store(true)
	conn.client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
		if !forbidden.Load() {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "", errors.New("no"))
	})
	cfg := v1beta1.NewDefault()
	cfg.LeaderElection.RetryPeriod = &metav1.Duration{Duration: time.Millisecond}
	all := tasks(t)
	l := New(Options{Identity: must.Get(NewIdentity())(t), Runner: &runner{}, Tasks: all, Clock: clock.RealClock{}})
	enabled := func(string) []string { return []string{"a"} }
	next := must.Get(l.Prepare(conn, cfg, enabled))(t)
	l.Adopt(t.Context(), next, cfg, enabled)
	t.Cleanup(func() {
		for _, k := range next {
			_ = k.resign(context.Background())
		}
	})
	goOn := func() {
		l.TakeTerms(t.Context())
		l.Settle(t.Context())
		select {
		case then := <-all.Done():
			then()
			l.Settle(t.Context())
		default:
		}
	}
	if err := l.CheckClaims(nil); err != nil {
		t.Errorf("without a lease: %v", err)
	}
	await.True(t, "it is not healthy", func() bool { goOn(); return l.CheckClaims(nil) != nil })
	status, err := l.Status().Leases[0], l.CheckClaims(nil)
	if !status.Leading || !strings.Contains(status.Problem, "forbidden") ||
		!strings.Contains(err.Error(), "lock main: it is not known whether another process still runs it") {
		t.Errorf("it leads: %t; problem %q, %v", status.Leading, status.Problem, err)
	}
	forbidden.Store(false)
	await.True(t, "it is healthy", func() bool { goOn(); return l.CheckClaims(nil) == nil })
	if status := l.Status().Leases[0]; !status.Leading || status.Problem != "" {
		t.Errorf("it leads: %t; problem %q", status.Leading, status.Problem)
	}
}

// Pins MGR-208.
func TestWhatIsWrongWithTheClaimsOfALock(t *testing.T) {
	for name, test := range map[string]struct {
		waits           []string
		trouble, hidden string
		want            string
	}{
		"nothing": {[]string{"a"}, "", "", ""},
		"something waits for what cannot be read": {[]string{"a"}, "unread", "", "unread"},
		"nothing waits for it any more":           {nil, "unread", "", ""},
		"others may not see it":                   {nil, "unread", "unseen", "unseen"},
	} {
		k := lockOf(mainLease, "a")
		k.want(test.waits)
		k.trouble, k.hidden = test.trouble, test.hidden
		if got := k.problem(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	ended := election.Always()
	ended.End(election.ErrStopped)
	l := New(Options{Clock: clock.RealClock{}})
	l.shown = []shown{{status: LeaseStatus{Problem: "unread"}, term: ended}}
	if err := l.CheckClaims(nil); err != nil {
		t.Errorf("the lease is lost: %v", err)
	}
}
