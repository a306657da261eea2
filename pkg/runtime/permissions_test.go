package runtime

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/must"
)

// Of the configuration, the files that it names and those that its kubeconfigs name, each that is open to everybody is
// reported once. Pins MGR-234.
func TestFilesThatAreOpenToEverybodyAreReportedOnce(t *testing.T) {
	folder := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
		must.Succeed(t, os.Chmod(path, mode))
		return path
	}
	const key = "-----BEGIN PRIVATE KEY-----\n"
	kubeconfig := write("kubeconfig", `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {client-certificate: open.crt, client-key: open.key}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, 0o666)
	write("open.crt", "-----BEGIN CERTIFICATE-----\n", 0o644)
	c := v1beta1.NewDefault()
	c.ClientConnection.Kubeconfig = kubeconfig
	c.Serving.Authentication.Kubeconfig, c.Serving.Authorization.Kubeconfig = kubeconfig, kubeconfig
	c.ServiceAccounts.PrivateKeyFile = write("sa.key", key, 0o640)
	config := write("config.yaml", "", 0o646)
	want := []string{config, kubeconfig, write("open.key", key, 0o604)}

	var log bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
	warnOfPermissions(klog.NewContext(t.Context(), logger), config, c)
	var got []string
	for _, line := range regexp.MustCompile(`"The permissions of a file are too wide" file="([^"]+)"`).FindAllStringSubmatch(log.String(), -1) {
		got = append(got, line[1])
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("reported are %q, want %q:\n%s", got, want, log.String())
	}
}
