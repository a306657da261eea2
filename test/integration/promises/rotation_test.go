package promises

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// A file that controllers read is rotated: they restart, and nothing else does.
// Pins MGR-176.
func TestRotatedFileRestartsItsReadersOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	first, second := read(t, plane.RootCAFile()), read(t, plane.RequestHeaderCAFile())
	must.Succeed(t, os.WriteFile(file, first, 0o600))
	m := start(t, func(c *manager.Config) {
		harness.Settle(20 * time.Millisecond)(c)
		c.ServiceAccounts.RootCAFile = file
	})
	namespace := plane.Namespace(t)
	published(t, namespace, first)

	before := harness.Status(t, m)
	put(t, file, second)
	rotated(t, m, &before)
	published(t, namespace, second)

	before = harness.Status(t, m)
	put(t, file, []byte("not a certificate\n"))
	inLog(t, m, "A file that controllers use has changed and cannot be used")
	harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, m)))

	must.Succeed(t, os.Remove(file))
	inLog(t, m, "A file that controllers use cannot be read")
	harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, m)))

	// An edit in between that does not concern the file is in force: its readers go on with
	// what they read. They follow when the file is back.
	harness.Edit(t, m, workers(7))
	waitRunning(t, m)
	harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, m)), deployment)

	before = harness.Status(t, m)
	put(t, file, first)
	rotated(t, m, &before)
	published(t, namespace, first)
}

// rotated waits until the readers of the CA file have been replaced once, because of it.
func rotated(t *testing.T, m *manager.Manager, before *runtime.Status) {
	t.Helper()
	readers := []string{rootCA, tokens}
	harness.Wait(t, m, "the readers of the file are back", func(s *runtime.Status) error {
		for _, name := range readers {
			c, was := harness.ControllerOf(s, name), harness.ControllerOf(before, name)
			if c.State != supervisor.Running || c.Pending || c.Restarts[string(supervisor.CauseFile)] != was.Restarts[string(supervisor.CauseFile)]+1 {
				return fmt.Errorf("%s is %s, restarts %v", name, c.State, c.Restarts)
			}
		}
		return nil
	})
	after := harness.Status(t, m)
	harness.SameInstances(t, harness.Instances(*before), harness.Instances(after), readers...)
	if after.Configuration.Generation != before.Configuration.Generation {
		t.Errorf("generation %d became %d: a rotated file is no new configuration", before.Configuration.Generation, after.Configuration.Generation)
	}
}

// published waits until a namespace has the CA bundle.
func published(t *testing.T, namespace string, bundle []byte) {
	t.Helper()
	await.That(t, "the bundle is published", func(context.Context) error {
		cm, err := plane.AdminClient().CoreV1().ConfigMaps(namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		if err == nil && cm.Data["ca.crt"] != string(bundle) {
			err = fmt.Errorf("it is %q", cm.Data["ca.crt"])
		}
		return err
	})
}

// Without a file, the CA in the kubeconfig, or in the file that it names, is published.
// Pins MGR-190.
func TestTheCAOfTheKubeconfigIsPublished(t *testing.T) {
	for name, kubeconfig := range map[string]func(*testing.T) string{
		"inline":  func(*testing.T) string { return plane.ManagerKubeconfig() },
		"by file": namingTheCA,
	} {
		t.Run(name, func(t *testing.T) {
			path := kubeconfig(t)
			start(t, func(c *manager.Config) {
				c.ServiceAccounts.RootCAFile = ""
				c.ClientConnection.Kubeconfig = path
			})
			published(t, plane.Namespace(t), read(t, plane.RootCAFile()))
		})
	}
}

// namingTheCA is the kubeconfig of the manager with the name of the CA file instead of its content.
func namingTheCA(t *testing.T) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(plane.ManagerKubeconfig())
	must.Succeed(t, err)
	for _, cluster := range config.Clusters {
		cluster.CertificateAuthority, cluster.CertificateAuthorityData = plane.RootCAFile(), nil
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must.Succeed(t, clientcmd.WriteToFile(*config, path))
	return path
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// inLog waits until the log of a manager contains a text.
func inLog(t testing.TB, m interface{ LogFile() string }, text string) {
	t.Helper()
	await.That(t, fmt.Sprintf("the log says %q", text), func(context.Context) error {
		data, err := os.ReadFile(m.LogFile())
		if err == nil && !strings.Contains(string(data), text) {
			err = fmt.Errorf("it does not in %d bytes", len(data))
		}
		return err
	})
}
