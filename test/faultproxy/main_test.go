package faultproxy

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kcmd.dev/test/controlplane"
)

// plane is shared by the tests of this package.
var plane *controlplane.ControlPlane

// user is who the clients of the tests are.
const user = "fault-tester"

const admins = "system:masters"

var configMaps = schema.GroupResource{Resource: "configmaps"}

func TestMain(m *testing.M) {
	options := controlplane.Options{NoServiceAccountAdmission: true, AuditUsers: []string{user, tokenUser}}
	os.Exit(controlplane.RunTests(m, options, func(c *controlplane.ControlPlane) { plane = c }))
}

// contentTypes are what clients of the tests ask for.
var contentTypes = map[string]string{"JSON": runtime.ContentTypeJSON, "protobuf": runtime.ContentTypeProtobuf}

// client returns a client that goes through the proxy, after edits of its configuration.
func client(t *testing.T, p *Proxy, edits ...func(*rest.Config)) kubernetes.Interface {
	t.Helper()
	config, err := p.Config(user, admins)
	if err != nil {
		t.Fatal(err)
	}
	for _, edit := range edits {
		edit(config)
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func withContentType(contentType string) func(*rest.Config) {
	return func(c *rest.Config) { c.ContentType, c.AcceptContentTypes = contentType, contentType }
}

func withAgent(agent string) func(*rest.Config) {
	return func(c *rest.Config) { c.UserAgent = agent }
}

// withHTTP1 gives a client connections without streams.
func withHTTP1(c *rest.Config) { c.NextProtos = []string{"http/1.1"} }

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// create creates ConfigMaps as the administrator, not through a proxy.
func create(t *testing.T, namespace string, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := plane.AdminClient().CoreV1().ConfigMaps(namespace).Create(t.Context(), configMap(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t *testing.T, namespace string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := plane.AdminClient().CoreV1().ConfigMaps(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
