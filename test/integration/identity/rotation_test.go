package identity

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// credentialID is what the API server notes of the credentials of a request.
const credentialID = "authentication.kubernetes.io/credential-id"

// access is a kubeconfig with all it names, which a test changes.
type access struct {
	t      *testing.T
	folder string
	config *clientcmdapi.Config
}

// newAccess makes a kubeconfig of the manager with everything in it.
func newAccess(t *testing.T) *access {
	t.Helper()
	config, err := clientcmd.LoadFromFile(plane.ManagerKubeconfig())
	must.Succeed(t, err)
	a := &access{t: t, folder: t.TempDir(), config: config}
	a.write()
	return a
}

func (a *access) path(name string) string { return filepath.Join(a.folder, name) }

func (a *access) cluster() *clientcmdapi.Cluster {
	return a.config.Clusters[a.config.Contexts[a.config.CurrentContext].Cluster]
}

func (a *access) user() *clientcmdapi.AuthInfo {
	return a.config.AuthInfos[a.config.Contexts[a.config.CurrentContext].AuthInfo]
}

func (a *access) write() { a.t.Helper(); a.put("kubeconfig", a.encoded()) }

func (a *access) encoded() []byte {
	a.t.Helper()
	data, err := clientcmd.Write(*a.config)
	must.Succeed(a.t, err)
	return data
}

// put replaces a file in one step.
func (a *access) put(name string, content []byte) {
	a.t.Helper()
	must.Succeed(a.t, os.WriteFile(a.path(name)+".new", content, 0o600))
	must.Succeed(a.t, os.Rename(a.path(name)+".new", a.path(name)))
}

// issue makes another certificate for the manager.
func (a *access) issue() (certificate, key []byte) {
	a.t.Helper()
	config, err := plane.Config(controlplane.ManagerUser)
	must.Succeed(a.t, err)
	return config.CertData, config.KeyData
}

// use has a manager use the kubeconfig. The endpoint goes on with another one.
func (a *access) use(c *manager.Config) { c.ClientConnection.Kubeconfig = a.path("kubeconfig") }

// credentialsSince are those of requests of the process itself after a mark.
func credentialsSince(t *testing.T, from controlplane.Mark) []string {
	t.Helper()
	var ids []string
	own := func(e *auditv1.Event) bool {
		return strings.HasPrefix(e.UserAgent, "kube-controller-manager/") && e.Stage == auditv1.StageResponseComplete &&
			(e.User.Username == controlplane.ManagerUser || strings.HasSuffix(e.User.Username, ":"+processAccount)) &&
			strings.Contains(e.UserAgent, "/leader-election")
	}
	for _, e := range since(t, from, own) {
		for _, id := range e.User.Extra[credentialID] {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// renewed waits until the credentials of a manager have been renewed n times, and tells how
// long that took.
func renewed(t *testing.T, m *manager.Manager, n uint64) {
	t.Helper()
	began := time.Now()
	harness.Wait(t, m, "the credentials are renewed", func(s *runtime.Status) error {
		if s.Connection.Renewed != n || s.Connection.Error != "" {
			return fmt.Errorf("they were renewed %d times, error %s", s.Connection.Renewed, s.Connection.Error)
		}
		return nil
	})
	t.Logf("renewed after %v", time.Since(began).Round(time.Millisecond))
}

// inUse waits until the manager renews its lease with other credentials than before.
func inUse(t *testing.T, before []string) {
	t.Helper()
	from := mark(t)
	await.That(t, "other credentials are in use", func(context.Context) error {
		ids := credentialsSince(t, from)
		if len(ids) == 0 || slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(before, id) }) {
			return fmt.Errorf("in use are %q, before %q", ids, before)
		}
		return nil
	})
}

// warm fails if a cache was filled again, or anything restarted, since a mark. It waits
// until the watches have moved, and the connections of before are closed.
func warm(t *testing.T, m *manager.Manager, before runtime.Status, from controlplane.Mark, connections int) {
	t.Helper()
	await.That(t, "no connection of before is left", func(context.Context) error {
		if n := connectionsToAPIServer(t); n > connections {
			return fmt.Errorf("there are %d connections, before %d", n, connections)
		}
		return nil
	})
	published(t) // over watches that have moved
	if events := since(t, from, initial); len(events) > 0 {
		t.Errorf("caches were filled again by %d requests:\n%s", len(events), lines(events))
	}
	after := harness.Status(t, m)
	harness.SameInstances(t, harness.Instances(before), harness.Instances(after))
	if after.Connection.Generation != before.Connection.Generation {
		t.Errorf("connection %d became %d", before.Connection.Generation, after.Connection.Generation)
	}
}

// A certificate and its key are replaced, one after the other, as tools do that know no
// better. In between, the pair of before goes on.
func TestCertificateFilesAreRotated(t *testing.T) {
	a := newAccess(t)
	a.put("ca.crt", a.cluster().CertificateAuthorityData)
	a.put("client.crt", a.user().ClientCertificateData)
	a.put("client.key", a.user().ClientKeyData)
	a.cluster().CertificateAuthorityData, a.user().ClientCertificateData, a.user().ClientKeyData = nil, nil, nil
	a.cluster().CertificateAuthority, a.user().ClientCertificate, a.user().ClientKey = "ca.crt", "client.crt", "client.key"
	a.write()
	m := start(t, a.use)
	published(t)
	before, from, connections := harness.Status(t, m), mark(t), connectionsToAPIServer(t)
	ids := credentialsSince(t, 0)

	certificate, key := a.issue()
	a.put("client.crt", certificate)
	harness.Wait(t, m, "the mismatch is shown", func(s *runtime.Status) error {
		if !strings.Contains(s.Connection.Error, "the client certificate and its key") {
			return fmt.Errorf("shown is %q", s.Connection.Error)
		}
		return nil
	})
	if page, err := m.Get(t.Context(), "/metrics"); err != nil || !strings.Contains(string(page), `kcmd_credentials_automatic_reloads_total{status="failure"} 1`) {
		t.Errorf("the failure is not counted: %v", err)
	}
	published(t)
	a.put("client.key", key)
	renewed(t, m, 1)
	inUse(t, ids)
	warm(t, m, before, from, connections)

	// The CA file is replaced by one that holds another CA as well.
	other, err := os.ReadFile(plane.RequestHeaderCAFile())
	must.Succeed(t, err)
	old, err := os.ReadFile(a.path("ca.crt"))
	must.Succeed(t, err)
	a.put("ca.crt", append(old, other...))
	renewed(t, m, 2)
	warm(t, m, before, from, connections)
	t.Logf("%d connections to the API server", connectionsToAPIServer(t))
}

// The kubeconfig itself is replaced: by an equal one, by one with another certificate, by one
// with another CA, and by one that leads elsewhere.
// Pins MGR-176.
func TestKubeconfigIsRotated(t *testing.T) {
	a := newAccess(t)
	m := start(t, func(c *manager.Config) {
		a.use(c)
		c.ServiceAccounts.RootCAFile = ""
	})
	published(t)
	before, from, connections := harness.Status(t, m), mark(t), connectionsToAPIServer(t)
	ids := credentialsSince(t, 0)

	a.put("kubeconfig", append(a.encoded(), "# a comment\n"...))
	a.user().ClientCertificateData, a.user().ClientKeyData = a.issue()
	a.write()
	renewed(t, m, 1)
	inUse(t, ids)
	warm(t, m, before, from, connections)

	other, err := os.ReadFile(plane.RequestHeaderCAFile())
	must.Succeed(t, err)
	a.cluster().CertificateAuthorityData = append(slices.Clone(a.cluster().CertificateAuthorityData), other...)
	a.write()
	renewed(t, m, 2)
	harness.Wait(t, m, "those that publish the CA are back", func(s *runtime.Status) error {
		if harness.ControllerOf(s, rootCA).Generation != 2 {
			return errors.New("the publisher is not")
		}
		return m.WaitRunning(t.Context())
	})
	harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, m)), rootCA, tokens)
	if bundle := published(t).Data["ca.crt"]; bundle != string(a.cluster().CertificateAuthorityData) {
		t.Errorf("published is\n%s", bundle)
	}

	before = harness.Status(t, m)
	a.cluster().Server = strings.Replace(a.cluster().Server, "127.0.0.1", "localhost", 1)
	a.write()
	renewed(t, m, 3)
	must.Succeed(t, m.WaitRunning(t.Context()))
	after := harness.Status(t, m)
	if after.Connection.Server != a.cluster().Server || after.Connection.Generation != before.Connection.Generation+1 {
		t.Errorf("the connection is %+v", after.Connection)
	}
	published(t)
	await.That(t, "no connection of before is left", func(context.Context) error {
		if n := connectionsToAPIServer(t); n > connections {
			return fmt.Errorf("there are %d connections, before %d", n, connections)
		}
		return nil
	})
}

// processAccount is whom the process itself acts as in the test of token files.
const processAccount = "manager-with-a-token"

// A token file is replaced, as the kubelet does every hour: no connection is even closed.
// Pins MGR-125.
func TestTokenFileIsRotated(t *testing.T) {
	core := plane.AdminClient().CoreV1().ServiceAccounts(metav1.NamespaceSystem)
	_, err := core.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: processAccount}}, metav1.CreateOptions{})
	must.Succeed(t, err)
	_, err = plane.AdminClient().RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: processAccount},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: processAccount}},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	token := func() []byte {
		t.Helper()
		answer, err := core.CreateToken(t.Context(), processAccount, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		must.Succeed(t, err)
		return []byte(answer.Status.Token + "\n")
	}
	a := newAccess(t)
	a.user().ClientCertificateData, a.user().ClientKeyData, a.user().TokenFile = nil, nil, "token"
	a.put("token", token())
	a.write()
	m := start(t, a.use)
	published(t)
	before, from, connections := harness.Status(t, m), mark(t), connectionsToAPIServer(t)
	ids := credentialsSince(t, 0)
	watches := func(e *auditv1.Event) bool {
		return e.Verb == "watch" && strings.HasPrefix(e.UserAgent, "kube-controller-manager/") && strings.HasSuffix(e.UserAgent, "-informers")
	}

	a.put("token", token())
	renewed(t, m, 1)
	inUse(t, ids)
	warm(t, m, before, from, connections)
	if events := since(t, from, watches); len(events) > 0 {
		t.Errorf("watches were opened again:\n%s", lines(events))
	}

	// The API server refuses it: the one before stays in use.
	a.put("token", []byte("nonsense\n"))
	harness.Wait(t, m, "the refused token is shown", func(s *runtime.Status) error {
		return containsAll(s.Connection.Error, []string{"Unauthorized"})
	})
	warm(t, m, before, from, connections)

	a.put("token", []byte("\n"))
	harness.Wait(t, m, "the empty token is shown", func(s *runtime.Status) error {
		if !strings.Contains(s.Connection.Error, "is empty") {
			return fmt.Errorf("shown is %q", s.Connection.Error)
		}
		return nil
	})
	published(t)
}

// The key that signs tokens is replaced: that restarts the controller that signs, alone.
// Pins MGR-176.
func TestSigningKeyIsRotated(t *testing.T) {
	key := filepath.Join(t.TempDir(), "sa.key")
	content, err := os.ReadFile(plane.ServiceAccountKeyFile())
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(key, content, 0o600))
	m := start(t, func(c *manager.Config) { c.ServiceAccounts.PrivateKeyFile = key })
	before := harness.Status(t, m)
	_, other := newAccess(t).issue()
	must.Succeed(t, os.WriteFile(key, other, 0o600))
	harness.Wait(t, m, "the controller is back", func(s *runtime.Status) error {
		if c := harness.ControllerOf(s, tokens); c.Generation != 2 || c.Pending {
			return fmt.Errorf("it is %s, instance %d", c.State, c.Generation)
		}
		return m.WaitRunning(t.Context())
	})
	harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, m)), tokens)
}

// A configuration that comes before a file it names is taken as soon as the file is there.
func TestConfigurationThatWaitsForAFile(t *testing.T) {
	m := start(t, nil)
	late := filepath.Join(t.TempDir(), "late", "ca.crt")
	err := m.Edit(t.Context(), func(c *manager.Config) { c.ServiceAccounts.RootCAFile = late })
	if err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Fatalf("the edit gives %v", err)
	}
	rejected := harness.Status(t, m)
	must.Succeed(t, os.Mkdir(filepath.Dir(late), 0o700))
	must.Succeed(t, os.WriteFile(late, []byte("half a certif"), 0o600))
	harness.Wait(t, m, "it is judged again", func(s *runtime.Status) error {
		if len(s.Reloads) == len(rejected.Reloads) || !strings.Contains(s.Configuration.Rejected, "no certificates in PEM") {
			return fmt.Errorf("%d reloads, rejected: %s", len(s.Reloads), s.Configuration.Rejected)
		}
		return nil
	})
	content, err := os.ReadFile(plane.RootCAFile())
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(late, content, 0o600))
	began := time.Now()
	harness.Wait(t, m, "it is in force", func(s *runtime.Status) error {
		if s.Configuration.Generation != rejected.Configuration.Generation+1 || s.Configuration.Rejected != "" {
			return fmt.Errorf("in force is generation %d, rejected: %s", s.Configuration.Generation, s.Configuration.Rejected)
		}
		return nil
	})
	t.Logf("in force %v after the file", time.Since(began).Round(time.Millisecond))
	must.Succeed(t, m.WaitRunning(t.Context()))
	harness.SameInstances(t, harness.Instances(rejected), harness.Instances(harness.Status(t, m)), rootCA, tokens)
}

// A configuration whose kubeconfig for reviews comes before the certificate that this names is taken as soon as that is
// there.
func TestConfigurationThatWaitsForAFileOfItsKubeconfig(t *testing.T) {
	m := start(t, nil)
	a := newAccess(t)
	certificate, key := a.user().ClientCertificateData, a.user().ClientKeyData
	a.user().ClientCertificateData, a.user().ClientKeyData = nil, nil
	a.user().ClientCertificate, a.user().ClientKey = "client.crt", "client.key"
	a.put("client.key", key)
	a.write()
	err := m.Edit(t.Context(), func(c *manager.Config) { c.Serving.Authentication.Kubeconfig = a.path("kubeconfig") })
	if err == nil || !strings.Contains(err.Error(), "client.crt") {
		t.Fatalf("the edit gives %v", err)
	}
	rejected := harness.Status(t, m)
	a.put("client.crt", certificate)
	harness.Wait(t, m, "it is in force", func(s *runtime.Status) error {
		if s.Configuration.Generation != rejected.Configuration.Generation+1 || s.Configuration.Rejected != "" {
			return fmt.Errorf("in force is generation %d, rejected: %s", s.Configuration.Generation, s.Configuration.Rejected)
		}
		return nil
	})
}
