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
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const (
	deployment = "deployment-controller"
	replicaSet = "replicaset-controller"
	rootCA     = "root-ca-certificate-publisher-controller"
	tokens     = "serviceaccount-token-controller"
)

var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	options := controlplane.Options{NoServiceAccountAdmission: true}
	os.Exit(controlplane.RunTests(m, options, func(cp *controlplane.ControlPlane) { plane = cp }))
}

// ownLease keeps the managers of different tests apart, and has them react at once.
func ownLease(t testing.TB, edit func(*manager.Config)) func(*manager.Config) {
	return harness.All(harness.OwnLease(t), harness.Settle(20*time.Millisecond), edit)
}

// begin runs a manager in this process and does not wait for its controllers.
func begin(t testing.TB, o runtime.Options, edit func(*manager.Config)) *manager.Manager {
	t.Helper()
	return manager.Join(t, plane, o, ownLease(t, edit))
}

// start runs a manager in this process and waits until its controllers work on filled caches.
func start(t testing.TB, edit func(*manager.Config)) *manager.Manager {
	t.Helper()
	m := begin(t, runtime.Options{}, edit)
	must.Succeed(t, m.WaitRunning(t.Context()))
	harness.Wait(t, m, "the caches are filled", harness.CachesFilled)
	harness.Wait(t, m, "the controllers work", harness.LoopsBegan)
	return m
}

func mark(t testing.TB) controlplane.Mark {
	t.Helper()
	m, err := plane.Audit().Mark()
	must.Succeed(t, err)
	return m
}

func since(t testing.TB, m controlplane.Mark, filters ...controlplane.Filter) []auditv1.Event {
	t.Helper()
	events, err := plane.Audit().Since(m, filters...)
	must.Succeed(t, err)
	return events
}

// initial passes requests that fill a cache: lists, and watches that begin with all objects. Controllers list live, too.
func initial(e *auditv1.Event) bool {
	return strings.HasPrefix(e.UserAgent, "kube-controller-manager/") && strings.HasSuffix(e.UserAgent, "-informers") &&
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
	await.That(t, "the CA bundle is published", func(context.Context) (err error) {
		found, err = plane.AdminClient().CoreV1().ConfigMaps(namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	return found
}
