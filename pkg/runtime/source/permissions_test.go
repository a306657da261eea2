package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFilesThatAreOpenToEverybody(t *testing.T) {
	const key = "-----BEGIN EC PRIVATE KEY-----\nMHc=\n-----END EC PRIVATE KEY-----\n"
	const certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
	for _, test := range []struct {
		name, content, want string
		mode                os.FileMode
	}{
		{"key", key, "", 0o600}, {"key", key, "", 0o640}, {"key", key, "may read it", 0o644}, {"key", key, "may change it", 0o622},
		{"certificate", certificate, "", 0o644}, {"certificate", certificate, "may change it", 0o666},
		{"kubeconfig with token", "users: [{user: {token: abc}}]", "may read it", 0o604},
		{"kubeconfig with key", "users:\n- user:\n    client-key-data: abc", "may read it", 0o644},
		{"kubeconfig that names files", "users:\n- user:\n    client-key: /k", "", 0o644},
		{"configuration", "kind: KubeControllerManagerConfiguration", "", 0o644},
		{"configuration", "kind: KubeControllerManagerConfiguration", "may change it", 0o646},
	} {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, test.mode); err != nil {
			t.Fatal(err)
		}
		got := PermissionProblem(name)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s with mode %o: %q, want %q", test.name, test.mode, got, test.want)
		}
	}
	if got := PermissionProblem(filepath.Join(t.TempDir(), "none")); got != "" {
		t.Errorf("a file that is not there: %q", got)
	}
}
