package connection

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/api/coordination/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	configv1beta1 "kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/claims"
)

// servedBy is a connection to a server with a handler, which has not begun.
func servedBy(t *testing.T, handler http.HandlerFunc) *Connection {
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
	c := configv1beta1.NewDefault().ClientConnection
	c.Kubeconfig = kubeconfig
	conn, err := New(t.Context(), 1, c, func(schema.GroupVersionResource) bool { return false }, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Retire()
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
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   string // empty: it is proved
	}{
		{"API groups", answer(200, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`), ""},
		{"another server", answer(200, "<html>welcome</html>"), "not that of an API server"},
		{"another kind", answer(200, `{"kind":"Status","apiVersion":"v1"}`), "not that of an API server"},
		{"unknown credentials", refusal(401, "Unauthorized"), "no: Unauthorized"},
		{"forbidden discovery", refusal(403, "Forbidden"), "no: Forbidden"},
		{"a server that fails", refusal(500, "InternalError"), "no: InternalError"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Proof(ServesAPIs).Ask(t.Context(), servedBy(t, c.answer))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A lease that may be read and not written can never be held: everything would stop for it. Pins MGR-235.
func TestWhatProvesThatALeaseCanBeHeld(t *testing.T) {
	const lease = "the lease kube-system/kube-controller-manager"
	stored := answer(200, `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"kube-controller-manager","resourceVersion":"7"}}`)
	missing, forbidden, invalid := refusal(404, "NotFound"), refusal(403, "Forbidden"), refusal(422, "Invalid")
	unserved := answer(404, "404 page not found")
	for _, c := range []struct {
		name                           string
		get, create, update, candidate http.HandlerFunc // a candidate has coordinated leader election
		sent                           string
		want                           string // empty: it is proved
	}{
		{"it is there", stored, nil, stored, nil, "GET PUT", ""},
		{"it may not be read", forbidden, nil, nil, nil, "GET", "reading " + lease},
		{"a proxy does not know it", unserved, nil, nil, nil, "GET", "reading " + lease},
		{"it may not be updated", stored, nil, forbidden, nil, "GET PUT", "updating " + lease},
		{"a policy denies the update", stored, nil, invalid, nil, "GET PUT", "updating " + lease},
		{"a webhook denies the update", stored, nil, refusal(400, ""), nil, "GET PUT", "updating " + lease},
		{"somebody renews it", stored, nil, refusal(409, "Conflict"), nil, "GET PUT", ""},
		{"somebody deletes it", stored, nil, missing, nil, "GET PUT", ""},
		{"it is not there", missing, stored, stored, nil, "GET POST PUT", ""},
		{"its namespace is not there", missing, missing, missing, nil, "GET POST", "creating " + lease},
		{"it may not be created", missing, forbidden, nil, nil, "GET POST", "creating " + lease},
		{"it may be created, not updated", missing, stored, forbidden, nil, "GET POST PUT", "updating " + lease},
		{"somebody creates it", missing, refusal(409, "AlreadyExists"), refusal(409, "Conflict"), nil, "GET POST PUT", ""},
		{"a candidate for a lease", stored, nil, stored, stored, "GET POST PUT", ""},
		{"a candidate for none", missing, nil, nil, stored, "GET POST", ""},
		{"the candidate is there", missing, nil, nil, refusal(409, "AlreadyExists"), "GET POST", ""},
		{"candidates are not served", missing, nil, nil, unserved, "GET POST", "creating the lease candidate kube-system/us"},
	} {
		t.Run("MGR-235: "+c.name, func(t *testing.T) {
			var sent []string
			conn := servedBy(t, func(w http.ResponseWriter, r *http.Request) {
				sent = append(sent, r.Method)
				if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") != "All" {
					t.Errorf("%s %s is stored", r.Method, r.URL.Path)
				}
				if strings.HasSuffix(r.URL.Path, "/leasecandidates") {
					c.candidate(w, r)
					return
				}
				map[string]http.HandlerFunc{"GET": c.get, "POST": c.create, "PUT": c.update}[r.Method](w, r)
			})
			var candidate *v1beta1.LeaseCandidate
			if c.candidate != nil {
				candidate = &v1beta1.LeaseCandidate{ObjectMeta: metav1.ObjectMeta{Name: "us"}}
			}
			err := LeaseUsable(claims.Lease{Namespace: "kube-system", Name: "kube-controller-manager"}, candidate).Ask(t.Context(), conn)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if got := strings.Join(sent, " "); got != c.sent {
				t.Errorf("sent %s, want %s", got, c.sent)
			}
		})
	}
}

// What a lease is proved by is everything without which nothing starts under it, and leaves nothing behind.
// Pins MGR-196.
func TestWhatProvesThatClaimsCanBeRead(t *testing.T) {
	home := claims.Lease{Namespace: "kube-system", Name: "kube-controller-manager"}
	moved, group := claims.Lease{Namespace: "ha", Name: "main"}, claims.Lease{Namespace: "kube-system", Name: "group"}
	const in = "/apis/coordination.k8s.io/v1/namespaces/"
	const system = in + "kube-system/leases"
	for _, c := range []struct {
		name      string
		own, main claims.Lease
		forbidden string // a request
		want      string // empty: it is proved
	}{
		{"everything is permitted", home, home, "", ""},
		{"everything is permitted, elsewhere", moved, moved, "", ""},
		{"no list", home, home, "GET " + system, "reading the claims of other leases in namespace kube-system"},
		{"no list of the directory", moved, moved, "GET " + system, "in namespace kube-system"},
		{"no list elsewhere", moved, moved, "GET " + in + "ha/leases", "reading the claims of other leases in namespace ha"},
		{"no entry", moved, moved, "POST " + system, "telling other processes of the leases in namespace ha"},
		{"no main lease", group, home, "GET " + system + "/kube-controller-manager", "reading the claim of the main lease"},
		{"kube-system needs no entry", home, home, "POST " + system, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := servedBy(t, func(w http.ResponseWriter, r *http.Request) {
				request := r.Method + " " + r.URL.Path
				if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") != "All" {
					t.Errorf("%s is stored", request)
				}
				switch {
				case request == c.forbidden:
					refusal(403, "Forbidden")(w, r)
				case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/leases"):
					answer(200, `{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","items":[]}`)(w, r)
				default:
					answer(200, `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"x"}}`)(w, r)
				}
			})
			err := ClaimsReadable(c.own, c.main).Ask(t.Context(), conn)
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
	if err := Proof(ServesAPIs).Ask(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	conn.Retire()
	<-conn.closed
	if len(paths) != 1 || paths[0] != "/apis" {
		t.Errorf("asked for %q", paths)
	}
}

func TestAProofIsBounded(t *testing.T) {
	asked := Proof(func(ctx context.Context, _ *Connection) error {
		deadline, bounded := ctx.Deadline()
		if !bounded || time.Until(deadline) > proofTimeout {
			t.Errorf("the deadline is %v (there is one: %t)", deadline, bounded)
		}
		<-ctx.Done()
		return ctx.Err()
	}).Ask(t.Context(), nil)
	if !errors.Is(asked, errNoAnswer) {
		t.Errorf("got %v", asked)
	}
}
