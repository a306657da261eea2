package accounts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const (
	rootCA            = "kube-root-ca.crt"
	description       = "kubernetes.io/description"
	rootCADescription = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)

// bundle is the CA bundle that the manager publishes.
func bundle(t *testing.T) string {
	t.Helper()
	return string(must.Get(os.ReadFile(cluster.Manager.Config().ServiceAccounts.RootCAFile))(t))
}

func waitForRootCA(t *testing.T, namespace, want string) *corev1.ConfigMap {
	t.Helper()
	var got *corev1.ConfigMap
	await.That(t, "the CA bundle is published", func(ctx context.Context) (err error) {
		if got, err = admin.CoreV1().ConfigMaps(namespace).Get(ctx, rootCA, metav1.GetOptions{}); err != nil {
			return err
		}
		if !maps.Equal(got.Data, map[string]string{"ca.crt": want}) || got.Annotations[description] == "" {
			return fmt.Errorf("it is %v %v", got.Annotations, got.Data)
		}
		return nil
	})
	return got
}

// Pins ROOTCA-7, ROOTCA-15, ROOTCA-16, ROOTCA-17 and ROOTCA-18.
func TestRootCAIsPublishedAndRepaired(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	first := waitForRootCA(t, namespace, bundle(t))
	if len(first.Annotations) != 1 || first.Annotations[description] != rootCADescription {
		t.Errorf("the annotations are %q", first.Annotations)
	}
	if err := admin.CoreV1().ConfigMaps(namespace).Delete(t.Context(), rootCA, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForRootCA(t, namespace, bundle(t))
	for what, damage := range map[string]string{
		"an emptied bundle":     `{"data":{"ca.crt":""}}`,
		"a further key":         `{"data":{"more":"x"}}`,
		"no keys":               `{"data":null}`,
		"a missing description": `{"metadata":{"annotations":null}}`,
	} {
		t.Log(what)
		cluster.PatchConfigMap(t, namespace, rootCA, damage)
		waitForRootCA(t, namespace, bundle(t))
	}
}

// Pins ROOTCA-17 and ROOTCA-25.
func TestRootCAKeepsWhatOthersAdd(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	waitForRootCA(t, namespace, bundle(t))
	patched := cluster.PatchConfigMap(t, namespace, rootCA, `{"metadata":{"annotations":{"`+description+`":"ours"},"labels":{"team":"a"}}}`)
	// The next change shows that this one was left alone: nothing was written in between.
	w, err := admin.CoreV1().ConfigMaps(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: patched.ResourceVersion, FieldSelector: "metadata.name=" + rootCA})
	changes := make(chan *corev1.ConfigMap, 10)
	harness.Follow(t, w, err, func(_ watch.EventType, c *corev1.ConfigMap) error {
		changes <- c
		return nil
	})
	damaged := cluster.PatchConfigMap(t, namespace, rootCA, `{"data":{"more":"x"}}`)
	if next := <-changes; next.ResourceVersion != damaged.ResourceVersion {
		t.Errorf("a description of somebody else's was written over: %v", next.Annotations)
	}
	repaired := waitForRootCA(t, namespace, bundle(t))
	if repaired.Labels["team"] != "a" || repaired.Annotations[description] != rootCADescription {
		t.Errorf("after the repair: labels %v, annotations %v", repaired.Labels, repaired.Annotations)
	}
}

// TestRootCAFileIsFollowed is not parallel: it edits the manager's configuration.
// Pins ROOTCA-39.
func TestRootCAFileIsFollowed(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	original := must.Get(os.ReadFile(cluster.RootCAFile()))(t)
	waitForRootCA(t, namespace, string(original))
	secret := createTokenSecret(t, namespace, "token", "default", nil)
	waitForToken(t, namespace, secret.Name, string(original))

	before := generations(t)
	file := filepath.Join(cluster.Dir(), "published-ca.crt")
	writeFile(t, file, original)
	if err := cluster.Manager.Edit(t.Context(), func(c *manager.Config) { c.ServiceAccounts.RootCAFile = file }); err != nil {
		t.Fatal(err)
	}
	readers := map[string]uint64{
		"root-ca-certificate-publisher-controller": 1, "serviceaccount-token-controller": 1,
		"kube-apiserver-serving-clustertrustbundle-publisher-controller": 1,
	}
	waitForRestarts(t, before, readers)

	before = generations(t)
	two := append(must.Get(os.ReadFile(cluster.RequestHeaderCAFile()))(t), original...)
	writeFile(t, file, two)
	waitForRestarts(t, before, readers)
	waitForRootCA(t, namespace, string(two))
	waitForRootCA(t, metav1.NamespaceSystem, string(two))
	waitForToken(t, namespace, secret.Name, string(two))

	// A file that cannot be used changes nothing.
	before = generations(t)
	writeFile(t, file, []byte("no certificate"))
	await.That(t, "the log says that the file cannot be used", func(context.Context) error {
		log, err := os.ReadFile(cluster.Manager.LogFile())
		if err == nil && !strings.Contains(string(log), "cannot be used") {
			err = errors.New("it does not")
		}
		return err
	})
	other := cluster.NamespaceForPods(t)
	waitForRootCA(t, other, string(two))
	writeFile(t, file, original)
	waitForRootCA(t, other, string(original))
	waitForToken(t, namespace, secret.Name, string(original))
	waitForRestarts(t, before, readers)
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// generations counts the instances that each controller has had.
func generations(t *testing.T) map[string]uint64 {
	t.Helper()
	status := must.Get(cluster.Manager.Status(t.Context()))(t)
	all := map[string]uint64{}
	for _, c := range status.Controllers {
		all[c.Name] = c.Generation
	}
	return all
}

// waitForRestarts waits until everything runs and the instances since before are just
// those of want.
func waitForRestarts(t *testing.T, before, want map[string]uint64) {
	t.Helper()
	err := cluster.Manager.Wait(t.Context(), "the readers of the file are restarted", func(s *runtime.Status) error {
		var errs []error
		for _, c := range s.Controllers {
			if got := c.Generation - before[c.Name]; got != want[c.Name] || c.State != supervisor.Running && c.State != supervisor.Disabled {
				errs = append(errs, fmt.Errorf("%s is %s and was restarted %d times", c.Name, c.State, got))
			}
		}
		return errors.Join(errs...)
	})
	if err != nil {
		t.Fatal(err)
	}
}
