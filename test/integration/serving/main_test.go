// Package serving tests the endpoint of the real program against a real API server: who
// may read what, that no page shows a secret, the status page in a browser, what a flood
// does, and that the documented metrics and alerts exist.
//
//  1. All tests share one control plane and one process of the manager. Tests that edit
//     its configuration put it back.
//  2. The endpoint bounds what strangers ask per address. Tests that ask a lot come from
//     many loopback addresses, as do the strangers they play.
//  3. Nothing waits for time to pass. What happens later is polled for with a deadline.
package serving

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/manager"
)

const (
	deployment = "deployment-controller"
	cronJob    = "cronjob-controller"
	// patience bounds every wait of these tests.
	patience = 20 * time.Second
)

var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	os.Exit(controlplane.RunTests(m, controlplane.Options{}, func(cp *controlplane.ControlPlane) { plane = cp }))
}

// TestEndpoint runs the tests that share a process. Pins MGR-133 and MGR-134.
func TestEndpoint(t *testing.T) {
	m := manager.StartProcess(t, plane, nil)
	namespace := plane.Namespace(t)
	monitor := token(t, namespace, "monitor")
	bind(t, namespace, "monitor", "system:monitoring")
	stranger := token(t, namespace, "stranger")
	await.That(t, "the endpoint knows who is who", func(context.Context) error {
		_, err := m.Get(t.Context(), "/metrics")
		return err
	})

	t.Run("who may read what", func(t *testing.T) { whoMayReadWhat(t, m, monitor, stranger) })
	t.Run("strangers stay bounded", func(t *testing.T) { strangersStayBounded(t, m, stranger) })
	t.Run("clients stay known", func(t *testing.T) { clientsStayKnown(t, m) })
	t.Run("no page shows a secret", func(t *testing.T) { noSecrets(t, m, monitor) })
	t.Run("the status page in a browser", func(t *testing.T) { pageInBrowser(t, m, monitor) })
	t.Run("standby is healthy", standbyIsHealthy)
	t.Run("metrics follow their options", func(t *testing.T) { metricsFollowOptions(t, m) })
	t.Run("metrics of upstream exist", func(t *testing.T) { metricsOfUpstreamExist(t, m) })
	t.Run("documented metrics exist", func(t *testing.T) { documentedMetricsExist(t, m) })
	t.Run("log level", func(t *testing.T) { logLevel(t, m) })
	t.Run("flood", func(t *testing.T) { flood(t, m) })
}

// from is a client with an address of its own, of all that the loopback device has. It
// keeps no connection.
func from(t testing.TB, n int) *http.Client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+n/250), byte(1+n%250))}}
	transport := &http.Transport{
		DialContext:       dialer.DialContext,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// answer is what came back.
type answer struct {
	code   int
	header http.Header
	body   string
}

func ask(t testing.TB, client *http.Client, method, url, bearer string, header http.Header) (answer, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		return answer{}, err // no end of the test: it may be asked by another goroutine
	}
	if header != nil {
		request.Header = header.Clone()
	}
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	return answer{response.StatusCode, response.Header, string(body)}, err
}

// token makes a service account and a token of it.
func token(t *testing.T, namespace, name string) string {
	t.Helper()
	accounts := plane.AdminClient().CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	issued, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return issued.Status.Token
}

// bind gives a cluster role to a service account.
func bind(t *testing.T, namespace, name, role string) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: fmt.Sprintf("%s-", name)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}
	if _, err := plane.AdminClient().RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
