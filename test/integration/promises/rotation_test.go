package promises

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/manager"
)

// A file that controllers read is rotated: they restart, and nothing else does.
func TestRotatedFileRestartsItsReadersOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	first, second := read(t, plane.RootCAFile()), read(t, plane.RequestHeaderCAFile())
	must(t, os.WriteFile(file, first, 0o600))
	m := start(t, func(c *manager.Config) {
		settle(c, 20*time.Millisecond)
		c.ServiceAccounts.RootCAFile = file
	})
	namespace := plane.Namespace(t)
	published(t, namespace, first)

	before := status(t, m)
	put(t, file, second)
	rotated(t, m, &before)
	published(t, namespace, second)

	before = status(t, m)
	put(t, file, []byte("not a certificate\n"))
	inLog(t, m, "A file that controllers read has changed and cannot be used")
	sameInstances(t, instances(before), instances(status(t, m)))

	must(t, os.Remove(file))
	inLog(t, m, "A file that controllers read cannot be read")
	sameInstances(t, instances(before), instances(status(t, m)))

	// An edit in between that does not concern the file is in force: its readers go on with
	// what they read. They follow when the file is back.
	edit(t, m, workers(7))
	waitRunning(t, m)
	sameInstances(t, instances(before), instances(status(t, m)), deployment)

	before = status(t, m)
	put(t, file, first)
	rotated(t, m, &before)
	published(t, namespace, first)
}

// rotated waits until the readers of the CA file have been replaced once, because of it.
func rotated(t *testing.T, m *manager.Manager, before *runtime.Status) {
	t.Helper()
	readers := []string{rootCA, tokens}
	wait(t, m, "the readers of the file are back", func(s *runtime.Status) error {
		for _, name := range readers {
			c, was := of(s, name), of(before, name)
			if c.State != supervisor.Running || c.Pending || c.Restarts[string(supervisor.CauseFile)] != was.Restarts[string(supervisor.CauseFile)]+1 {
				return fmt.Errorf("%s is %s, restarts %v", name, c.State, c.Restarts)
			}
		}
		return nil
	})
	after := status(t, m)
	sameInstances(t, instances(*before), instances(after), readers...)
	if after.Configuration.Generation != before.Configuration.Generation {
		t.Errorf("generation %d became %d: a rotated file is no new configuration", before.Configuration.Generation, after.Configuration.Generation)
	}
}

// published waits until a namespace has the CA bundle.
func published(t *testing.T, namespace string, bundle []byte) {
	t.Helper()
	eventually(t, "the bundle is published", func() error {
		cm, err := plane.AdminClient().CoreV1().ConfigMaps(namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		if err == nil && cm.Data["ca.crt"] != string(bundle) {
			err = fmt.Errorf("it is %q", cm.Data["ca.crt"])
		}
		return err
	})
}

// Without a file, the CA data of the kubeconfig is published.
func TestCADataOfTheKubeconfigIsPublished(t *testing.T) {
	start(t, func(c *manager.Config) { c.ServiceAccounts.RootCAFile = "" })
	published(t, plane.Namespace(t), read(t, plane.RootCAFile()))
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
	eventually(t, fmt.Sprintf("the log says %q", text), func() error {
		data, err := os.ReadFile(m.LogFile())
		if err == nil && !strings.Contains(string(data), text) {
			err = fmt.Errorf("it does not in %d bytes", len(data))
		}
		return err
	})
}
