// Package identity tests, against a real API server, as whom and over which connections the
// manager acts, and what becomes of it when that changes: credentials that are renewed,
// revoked or wrong, files that come late, an API server that is not there or does not
// serve a kind.
//
//  1. All tests share one control plane. Each runs a manager of its own, with a lease named
//     after the test.
//  2. What was asked of the API server, by whom and with which credentials is read from its
//     own audit log.
//  3. Nothing waits for time to pass. What happens later is polled for with a deadline.
package identity

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/manager"
)

const (
	deployment = "deployment-controller"
	replicaSet = "replicaset-controller"
	rootCA     = "root-ca-certificate-publisher-controller"
	tokens     = "serviceaccount-token-controller"

	// patience bounds every wait of these tests; nothing takes it when all is well.
	patience  = 45 * time.Second
	pollEvery = 10 * time.Millisecond
)

var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	options := controlplane.Options{NoServiceAccountAdmission: true}
	os.Exit(controlplane.RunTests(m, options, func(cp *controlplane.ControlPlane) { plane = cp }))
}

// ownLease keeps the managers of different tests apart, and has them react at once.
func ownLease(t testing.TB, edit func(*manager.Config)) func(*manager.Config) {
	return func(c *manager.Config) {
		c.LeaderElection.ResourceName = strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
		c.Reload.SettleTime = &metav1.Duration{Duration: 20 * time.Millisecond}
		if edit != nil {
			edit(c)
		}
	}
}

// begin runs a manager in this process and does not wait for its controllers.
func begin(t testing.TB, o runtime.Options, edit func(*manager.Config)) *manager.Manager {
	t.Helper()
	m, err := manager.Begin(t.Context(), plane, o, ownLease(t, edit))
	must(t, err)
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// start runs a manager in this process and waits until its controllers run and its caches
// are filled.
func start(t testing.TB, edit func(*manager.Config)) *manager.Manager {
	t.Helper()
	m := begin(t, runtime.Options{}, edit)
	must(t, m.WaitRunning(t.Context()))
	wait(t, m, "the caches are filled", cached)
	return m
}

func cached(s *runtime.Status) error {
	for _, i := range s.Informers {
		if !i.Synced {
			return fmt.Errorf("%s is not", i.Resource)
		}
	}
	return nil
}

func status(t testing.TB, m *manager.Manager) runtime.Status {
	t.Helper()
	s, err := m.Status(t.Context())
	must(t, err)
	return s
}

func wait(t testing.TB, m *manager.Manager, what string, check func(*runtime.Status) error) {
	t.Helper()
	must(t, m.Wait(t.Context(), what, check))
}

// eventually waits until check returns nil.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waiting until %s: %v", what, errors.Join(context.Cause(ctx), err))
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func statusOf(s *runtime.Status, name string) supervisor.Status {
	for _, c := range s.Controllers {
		if c.Name == name {
			return c
		}
	}
	return supervisor.Status{Name: name}
}

// instances are the running instances by controller.
func instances(s runtime.Status) map[string]uint64 {
	all := map[string]uint64{}
	for _, c := range s.Controllers {
		if c.State == supervisor.Running {
			all[c.Name] = c.Generation
		}
	}
	return all
}

// restarted fails unless exactly those in want run another instance than before, one newer.
func restarted(t testing.TB, before, after runtime.Status, want ...string) {
	t.Helper()
	was, is := instances(before), instances(after)
	var got []string
	for name, generation := range was {
		switch is[name] {
		case generation:
		case generation + 1:
			got = append(got, name)
		default:
			t.Errorf("%s went from instance %d to %d", name, generation, is[name])
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("restarted were %q, want %q", got, want)
	}
}

func mark(t testing.TB) controlplane.Mark {
	t.Helper()
	m, err := plane.Audit().Mark()
	must(t, err)
	return m
}

func since(t testing.TB, m controlplane.Mark, filters ...controlplane.Filter) []auditv1.Event {
	t.Helper()
	events, err := plane.Audit().Since(m, filters...)
	must(t, err)
	return events
}

// initial passes requests that fill a cache: lists, and watches that begin with all objects.
func initial(e *auditv1.Event) bool {
	return strings.HasPrefix(e.UserAgent, "kube-controller-manager/") &&
		(e.Verb == "list" || e.Verb == "watch" && strings.Contains(e.RequestURI, "sendInitialEvents=true") && e.Stage == auditv1.StageResponseStarted)
}

func lines(events []auditv1.Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s %s by %s\n", e.Verb, e.RequestURI, e.User.Username)
	}
	return b.String()
}

// published waits until a new namespace has its CA bundle: the manager works.
func published(t testing.TB) *corev1.ConfigMap {
	t.Helper()
	namespace := plane.Namespace(t)
	var found *corev1.ConfigMap
	eventually(t, "the CA bundle is published", func() (err error) {
		found, err = plane.AdminClient().CoreV1().ConfigMaps(namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	return found
}
