package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/telemetry"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// held is what a test has seen of a manager that works.
type held struct {
	t      *testing.T
	m      *manager.Manager
	lease  coordinationv1.LeaseSpec
	before runtime.Status
}

func leaseOf(t testing.TB, m *manager.Manager) coordinationv1.LeaseSpec {
	t.Helper()
	c := m.Config().LeaderElection
	l, err := plane.AdminClient().CoordinationV1().Leases(c.ResourceNamespace).Get(t.Context(), c.ResourceName, metav1.GetOptions{})
	must.Succeed(t, err)
	return l.Spec
}

func hold(t *testing.T, m *manager.Manager) *held {
	t.Helper()
	return &held{t: t, m: m, lease: leaseOf(t, m), before: harness.Status(t, m)}
}

// on fails unless the manager goes on as it did: the same instances, which work, on the same
// connection, under a lease that was not given up.
func (h *held) on() {
	h.t.Helper()
	published(h.t)
	after, lease := harness.Status(h.t, h.m), leaseOf(h.t, h.m)
	harness.SameInstances(h.t, harness.Instances(h.before), harness.Instances(after))
	if n, was := len(harness.Instances(after)), len(harness.Instances(h.before)); n != was {
		h.t.Errorf("%d controllers run, before %d", n, was)
	}
	if ptr.Deref(lease.HolderIdentity, "") != ptr.Deref(h.lease.HolderIdentity, "") || !lease.AcquireTime.Equal(h.lease.AcquireTime) {
		h.t.Errorf("the lease was given up: held by %s since %v", ptr.Deref(lease.HolderIdentity, ""), lease.AcquireTime)
	}
	if after.Connection.Generation != h.before.Connection.Generation || after.Connection.Server != h.before.Connection.Server {
		h.t.Errorf("the connection is %+v", after.Connection)
	}
}

// event waits for an event on the lease of a manager.
func event(t testing.TB, m *manager.Manager, reason string, says ...string) {
	t.Helper()
	c := m.Config().LeaderElection
	await.That(t, "the event is recorded", func(context.Context) error {
		events, err := plane.AdminClient().CoreV1().Events(c.ResourceNamespace).List(t.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.name=" + c.ResourceName + ",reason=" + reason})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if containsAll(e.Message, says) == nil {
				return nil
			}
		}
		return fmt.Errorf("%d events with reason %s, none of them says %q", len(events.Items), reason, says)
	})
}

func containsAll(text string, parts []string) error {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return fmt.Errorf("%q is missing in\n%s", part, text)
		}
	}
	return nil
}

// silent is a server that accepts connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	return "https://" + listener.Addr().String()
}

// stranger is a kubeconfig with the credentials that change makes of those of the manager.
func stranger(t *testing.T, change func(*access)) string {
	t.Helper()
	a := newAccess(t)
	change(a)
	a.write()
	return a.path("kubeconfig")
}

func withToken(token string) func(*access) {
	return func(a *access) {
		a.user().ClientCertificateData, a.user().ClientKeyData, a.user().Token = nil, nil, token
	}
}

// powerless is a kubeconfig of a user without rights.
func powerless(t *testing.T) string {
	t.Helper()
	path, err := plane.Kubeconfig("powerless-"+strings.ToLower(t.Name()), "powerless")
	must.Succeed(t, err)
	return path
}

// What cannot be used is refused before anything stops: the controllers run on, the lease is
// kept, and the failure is shown.
func TestAnEditToAServerThatCannotBeUsedIsRejected(t *testing.T) {
	m := start(t, nil)
	h := hold(t, m)
	to := func(server string) func(*manager.Config) {
		return func(c *manager.Config) { c.ClientConnection.Server = server }
	}
	as := func(kubeconfig string) func(*manager.Config) {
		return func(c *manager.Config) { c.ClientConnection.Kubeconfig = kubeconfig }
	}
	for n, one := range []struct {
		name string
		edit func(*manager.Config)
		says []string
	}{
		{"nobody listens", to("https://127.0.0.1:1"), []string{"clientConnection.server", "https://127.0.0.1:1", "connection refused"}},
		{"nothing is answered", to(silent(t)), []string{"clientConnection.server", "no response within"}},
		{"the credentials are refused", as(stranger(t, withToken("nonsense"))), []string{"clientConnection.kubeconfig", "Unauthorized"}},
		{"the lease is forbidden", as(powerless(t)), []string{"clientConnection.kubeconfig", `"powerless" cannot get resource "leases"`}},
	} {
		t.Run(one.name, func(t *testing.T) {
			good := m.Config()
			err := m.Edit(t.Context(), one.edit)
			if err == nil {
				t.Fatal("the edit is in force")
			}
			if err := containsAll(err.Error(), one.says); err != nil {
				t.Error(err)
			}
			s := harness.Status(t, m)
			if err := containsAll(s.Configuration.Rejected, one.says); err != nil {
				t.Errorf("the status: %v", err)
			}
			if s.Configuration.Generation != uint64(n+1) || s.Reloads[len(s.Reloads)-1].Status != telemetry.Failure {
				t.Errorf("generation %d is in force, the reloads are %+v", s.Configuration.Generation, s.Reloads)
			}
			h.on()
			if page, err := m.Get(t.Context(), "/metrics"); err != nil || !strings.Contains(string(page), "kcmd_config_rejected 1") {
				t.Errorf("the metric does not show it: %v", err)
			}
			event(t, m, "ConfigurationRejected", one.says...)
			must.Succeed(t, m.Edit(t.Context(), func(c *manager.Config) {
				*c = *good.DeepCopy()
				c.Reload.PollInterval.Duration += time.Second // what was in force before would be no reload
			}))
			if err := errorOf(harness.Status(t, m).Configuration.Rejected); err != nil {
				t.Error(err)
			}
		})
	}
	h.on()
}

func errorOf(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// A kubeconfig that is rewritten in place is judged as an edit is.
func TestAKubeconfigThatLeadsToAServerThatCannotBeUsedIsRefused(t *testing.T) {
	a := newAccess(t)
	good := a.encoded()
	m := start(t, a.use)
	h := hold(t, m)
	for _, one := range []struct {
		name   string
		change func()
		says   []string
	}{
		{"nobody listens", func() { a.cluster().Server = "https://127.0.0.1:1" }, []string{"https://127.0.0.1:1", "connection refused"}},
		{"nothing is answered", func() { a.cluster().Server = silent(t) }, []string{"no response within"}},
		{"the credentials are refused", func() { withToken("nonsense")(a) }, []string{"Unauthorized"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			one.change()
			a.write()
			harness.Wait(t, m, "the failure is shown", func(s *runtime.Status) error { return containsAll(s.Connection.Error, one.says) })
			h.on()
			if page, err := m.Get(t.Context(), "/metrics"); err != nil || strings.Contains(string(page), `kcmd_credentials_automatic_reloads_total{status="failure"} 0`) {
				t.Errorf("the failure is not counted: %v", err)
			}
			event(t, m, "CredentialsRejected", one.says...)
			a.put("kubeconfig", good)
			harness.Wait(t, m, "it holds again what is in use", func(s *runtime.Status) error { return errorOf(s.Connection.Error) })
			config, err := clientcmd.Load(good)
			must.Succeed(t, err)
			a.config = config
		})
	}
	h.on()
}

// opened hands on connections to the API server on an address, until the end of the test.
func opened(t *testing.T, address string) {
	t.Helper()
	target, err := url.Parse(plane.URL())
	must.Succeed(t, err)
	listener, err := net.Listen("tcp", address)
	must.Succeed(t, err)
	var mu sync.Mutex
	var conns []net.Conn
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		conns = append(conns, c)
	}
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			_ = c.Close()
		}
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target.Host)
			if err != nil {
				_ = client.Close()
				continue
			}
			keep(client)
			keep(server)
			go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
			go func() { _, _ = io.Copy(client, server); _ = client.Close() }()
		}
	}()
}

// closedAddress is one that nobody listens on.
func closedAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// What was rejected because the server did not answer comes into force once it does, without
// another change of any file.
func TestARejectedServerIsTriedAgain(t *testing.T) {
	t.Run("an edit", func(t *testing.T) {
		m := start(t, nil)
		h, address := hold(t, m), closedAddress(t)
		if err := m.Edit(t.Context(), func(c *manager.Config) { c.ClientConnection.Server = "https://" + address }); err == nil {
			t.Fatal("the edit is in force")
		}
		h.on()
		reloads := len(harness.Status(t, m).Reloads)
		opened(t, address)
		harness.Wait(t, m, "the edit is in force", func(s *runtime.Status) error {
			if s.Connection.Server != "https://"+address || s.Configuration.Generation != 2 {
				return fmt.Errorf("connected to %s, generation %d", s.Connection.Server, s.Configuration.Generation)
			}
			return errorOf(s.Configuration.Rejected)
		})
		must.Succeed(t, m.WaitRunning(t.Context()))
		published(t)
		if n := len(harness.Status(t, m).Reloads); n != reloads+1 {
			t.Errorf("%d reloads are shown, %d before the server answered: tries that change nothing are none", n, reloads)
		}
		must.Succeed(t, m.Edit(t.Context(), func(c *manager.Config) { c.ClientConnection.Server = "" }))
		must.Succeed(t, m.WaitRunning(t.Context()))
	})
	t.Run("a kubeconfig", func(t *testing.T) {
		a, address := newAccess(t), closedAddress(t)
		m := start(t, a.use)
		h := hold(t, m)
		before := a.cluster().Server
		a.cluster().Server = "https://" + address
		a.write()
		harness.Wait(t, m, "the failure is shown", func(s *runtime.Status) error {
			return containsAll(s.Connection.Error, []string{"connection refused"})
		})
		h.on()
		opened(t, address)
		harness.Wait(t, m, "it is in use", func(s *runtime.Status) error {
			if s.Connection.Server != "https://"+address {
				return fmt.Errorf("connected to %s", s.Connection.Server)
			}
			return errorOf(s.Connection.Error)
		})
		must.Succeed(t, m.WaitRunning(t.Context()))
		published(t)
		a.cluster().Server = before
		a.write()
		harness.Wait(t, m, "the way back is in use", func(s *runtime.Status) error {
			if s.Connection.Server != before {
				return fmt.Errorf("connected to %s", s.Connection.Server)
			}
			return nil
		})
		must.Succeed(t, m.WaitRunning(t.Context()))
	})
}
