package runtime

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/connection"
	"kcmd.dev/pkg/runtime/events"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
	"kcmd.dev/test/must"
)

// connected is a runtime with nothing but a connection, made from a kubeconfig with a token. The API server accepts
// every token but refused.
func connected(t *testing.T) (r *Runtime, kubeconfig func(name, token string) string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if req.Header.Get("Authorization") == "Bearer refused" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`))
			return
		}
		_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`))
	}))
	t.Cleanup(server.Close)
	folder := t.TempDir()
	kubeconfig = func(name, token string) string {
		path := filepath.Join(folder, name)
		must.Succeed(t, os.WriteFile(path, fmt.Appendf(nil, "apiVersion: v1\nkind: Config\ncurrent-context: x\n"+
			"clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]\nusers: [{name: u, user: {token: %s}}]\n"+
			"contexts: [{name: x, context: {cluster: c, user: u}}]\n", server.URL, token), 0o600))
		return path
	}
	r = &Runtime{
		options:    Options{Clock: clock.RealClock{}},
		events:     &events.Recorder{},
		leadership: leadership.New(leadership.Options{}),
		credentials: connection.NewRotation(
			telemetry.NewOutcomes(telemetry.NewRegistry(), "credentials", "changes", "change")),
	}
	r.document = naming(kubeconfig("kubeconfig", "accepted"))
	settings := r.document.Config.ClientConnection
	r.connection = must.Get(connection.New(t.Context(), 1, settings, r.cachesWhole, clock.RealClock{}))(t)
	t.Cleanup(func() { must.Succeed(t, r.connection.Shutdown()) })
	return r, kubeconfig
}

// naming is a configuration that names a kubeconfig.
func naming(kubeconfig string) *config.Document {
	c := v1beta1.NewDefault()
	c.ClientConnection.Kubeconfig = kubeconfig
	return &config.Document{Config: c}
}

// A changed kubeconfig leads to a server that does not answer, so it gets further requests. An edit that takes
// another connection ends that, and only if it is in force. Pins MGR-236.
func TestNothingIsAskedOfAServerThatAnEditLeaves(t *testing.T) {
	r, kubeconfig := connected(t)
	asking, cancel := context.WithCancel(t.Context())
	r.rotation.access.cancel = cancel
	tx := r.begin(supervisor.CauseConfig)
	tx.next.document = naming(kubeconfig("other", "accepted"))
	connect, err := tx.connect(t.Context())
	must.Succeed(t, err)
	if asking.Err() != nil {
		t.Error("an edit that may still be rejected has ended it")
	}
	connect.commit(t.Context())
	r.connection = tx.next.connection
	if asking.Err() == nil || r.rotation.access.waits() {
		t.Error("the server that the kubeconfig led to still gets requests")
	}
}

// Credentials are read, and the files have others when they are proved. What is proved is what is going to be used.
// Pins MGR-237.
func TestRenewedCredentialsAreProvedAsTheyWereRead(t *testing.T) {
	r, kubeconfig := connected(t)
	source := connection.SourceOf(r.document.Config.ClientConnection)
	kubeconfig("kubeconfig", "refused")
	read := must.Get(clients.LoadAccess(source, r.options.Clock.Now()))(t)
	kubeconfig("kubeconfig", "accepted-next")
	err := r.useAccess(t.Context(), read, clients.Renewed)
	if difference := must.Get(r.connection.Compare(read))(t); err == nil || difference == clients.Same {
		t.Errorf("credentials are in use that the API server refuses: %v", err)
	}
	read = must.Get(clients.LoadAccess(source, r.options.Clock.Now()))(t)
	must.Succeed(t, r.useAccess(t.Context(), read, clients.Renewed))
	if difference := must.Get(r.connection.Compare(read))(t); difference != clients.Same {
		t.Error("those that it accepts are not in use")
	}
}
