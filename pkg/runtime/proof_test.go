package runtime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/claims"
)

// servedBy is a connection to a server with a handler, which has not begun.
func servedBy(t *testing.T, handler http.HandlerFunc) *connection {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := v1beta1.NewDefault().ClientConnection
	c.Kubeconfig = kubeconfig
	conn, err := connect(t.Context(), 1, c, func(schema.GroupVersionResource) bool { return false }, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.retire()
		<-conn.closed
	})
	return conn
}

func answer(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

func refusal(code int, reason string) http.HandlerFunc {
	return answer(code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no: %s","reason":%q,"code":%d}`, reason, reason, code))
}

func TestWhatProvesAConnection(t *testing.T) {
	lease := leaseReadable(claims.Lease{Namespace: "kube-system", Name: "kube-controller-manager"})
	for _, c := range []struct {
		name     string
		question proof
		answer   http.HandlerFunc
		want     string // empty: it is proved
	}{
		{"API groups", servesAPIs, answer(200, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`), ""},
		{"another server", servesAPIs, answer(200, "<html>welcome</html>"), "not that of an API server"},
		{"another kind", servesAPIs, answer(200, `{"kind":"Status","apiVersion":"v1"}`), "not that of an API server"},
		{"unknown credentials", servesAPIs, refusal(401, "Unauthorized"), "no: Unauthorized"},
		{"forbidden discovery", servesAPIs, refusal(403, "Forbidden"), "no: Forbidden"},
		{"a server that fails", servesAPIs, refusal(500, "InternalError"), "no: InternalError"},
		{"a lease", lease, answer(200, `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"kube-controller-manager"}}`), ""},
		{"no lease yet", lease, refusal(404, "NotFound"), ""},
		{"a forbidden lease", lease, refusal(403, "Forbidden"), "reading the lease kube-system/kube-controller-manager"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.question.ask(t.Context(), servedBy(t, c.answer))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A connection that is only proved sends what proves it, and nothing in the background.
func TestAConnectionThatHasNotBegunSendsNothing(t *testing.T) {
	var paths []string
	conn := servedBy(t, func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		answer(200, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)(w, r)
	})
	if err := proof(servesAPIs).ask(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	conn.retire()
	<-conn.closed
	if len(paths) != 1 || paths[0] != "/apis" {
		t.Errorf("asked for %q", paths)
	}
}

func TestAProofIsBounded(t *testing.T) {
	asked := proof(func(ctx context.Context, _ *connection) error {
		deadline, bounded := ctx.Deadline()
		if !bounded || time.Until(deadline) > proofTimeout {
			t.Errorf("the deadline is %v (there is one: %t)", deadline, bounded)
		}
		<-ctx.Done()
		return ctx.Err()
	}).ask(t.Context(), nil)
	if !errors.Is(asked, errNoAnswer) {
		t.Errorf("got %v", asked)
	}
}

// Renewed credentials that are refused are not used. Those that cannot be tried are: nothing is
// lost by it.
func TestWhichRenewedCredentialsAreRefused(t *testing.T) {
	trusting := httptest.NewTLSServer(answer(200, "{}"))
	defer trusting.Close()
	_, untrusted := http.Get(trusting.URL)
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"proved":           {nil, false},
		"unknown":          {apierrors.NewUnauthorized("no"), true},
		"another CA":       {untrusted, true},
		"no rights":        {apierrors.NewForbidden(schema.GroupResource{}, "", nil), false},
		"no answer":        {errNoAnswer, false},
		"a busy server":    {apierrors.NewTooManyRequests("later", 1), false},
		"a failing server": {apierrors.NewInternalError(errNoAnswer), false},
	} {
		var err error
		if c.err != nil {
			err = &unproved{cause: fmt.Errorf("asking: %w", c.err)}
		}
		if got := refused(err); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestTheFieldsThatAreToBlame(t *testing.T) {
	for field, c := range map[string]v1beta1.ClientConnection{
		"clientConnection.server":     {Server: "https://a", Kubeconfig: "b"},
		"clientConnection.kubeconfig": {Kubeconfig: "b"},
		"clientConnection":            {},
	} {
		if got := connectionField(c); got != field {
			t.Errorf("%+v: got %s", c, got)
		}
	}
	for lock, field := range map[string]string{
		config.MainLock:          "leaderElection.resourceName",
		config.MigrationLock:     "leaderMigration.leaderName",
		config.GroupLock("apps"): "leaderElection.groups",
	} {
		if got := lockField(lock); got != field {
			t.Errorf("%s: got %s", lock, got)
		}
	}
}

// What could not be proved is asked again with growing delays, until it succeeds or nobody
// waits any more.
func TestRetriesSlowDown(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	r := &Runtime{options: Options{Clock: clk}}
	var asked atomic.Int32
	const succeeds = 8
	proved := make(chan bool, 1)
	go func() {
		proved <- r.untilProved(t.Context(), func(context.Context) error {
			if asked.Add(1) == succeeds {
				return nil
			}
			return errNoAnswer
		})
	}()
	for n, delay := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
		waitFor(t, func() bool { return clk.HasWaiters() && asked.Load() == int32(n) })
		clk.Step(delay*time.Second - time.Millisecond)
		if !clk.HasWaiters() {
			t.Fatalf("proof %d came before %v", n+1, delay*time.Second)
		}
		clk.Step(delay*time.Second/4 + time.Millisecond)
	}
	if !<-proved || asked.Load() != succeeds {
		t.Errorf("%d proofs", asked.Load())
	}

	ctx, cancel := context.WithCancel(t.Context())
	go func() { proved <- r.untilProved(ctx, func(context.Context) error { return errNoAnswer }) }()
	waitFor(t, clk.HasWaiters)
	cancel()
	if <-proved {
		t.Error("proved although nobody waits any more")
	}
}

func waitFor(t *testing.T, what func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !what() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it does not happen")
		}
	}
}
