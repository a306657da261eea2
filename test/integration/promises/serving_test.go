package promises

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/await"
)

// Who may see what: health is for everybody, the rest is decided by the API server.
// Pins MGR-97, MGR-99 and MGR-167.
func TestServingAsksTheAPIServer(t *testing.T) {
	m := start(t, nil)
	namespace := plane.Namespace(t)
	monitor := token(t, namespace, "monitor")
	stranger := token(t, namespace, "stranger")
	bindMonitoring(t, namespace, "monitor")

	anonymous := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(anonymous.CloseIdleConnections)
	bearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	for _, try := range []struct {
		who    string
		client *http.Client
		header http.Header
		want   map[string]int
	}{
		{"anonymous", anonymous, nil, map[string]int{
			"/healthz": 200, "/livez": 200, "/readyz": 200,
			"/metrics": 403, "/configz": 403, "/statusz": 403, "/debug/pprof/": 403,
		}},
		{"a member of system:masters", m.Client(), nil, map[string]int{
			"/healthz": 200, "/readyz": 200, "/metrics": 200, "/metrics/slis": 200, "/configz": 200, "/statusz": 200, "/debug/pprof/": 200,
			"/nothing-here": 404,
		}},
		{"a token with system:monitoring", anonymous, bearer(monitor), map[string]int{
			"/healthz": 200, "/metrics": 200, "/configz": 403, "/debug/pprof/": 403,
		}},
		{"a token without rights", anonymous, bearer(stranger), map[string]int{
			"/healthz": 200, "/metrics": 403, "/configz": 403,
		}},
		{"a token that is none", anonymous, bearer("nonsense"), map[string]int{
			"/metrics": 401, "/configz": 401,
		}},
	} {
		for path, want := range try.want {
			t.Run(try.who+" asks for "+path, func(t *testing.T) {
				// Rights that were just granted take a moment.
				await.That(t, "the answer is right", func(context.Context) error {
					got, err := code(t, try.client, m.URL()+path, try.header)
					if err == nil && got != want {
						err = fmt.Errorf("the answer is %d, want %d", got, want)
					}
					return err
				})
			})
		}
	}
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

func bindMonitoring(t *testing.T, namespace, name string) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "monitoring-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:monitoring"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}
	if _, err := plane.AdminClient().RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
