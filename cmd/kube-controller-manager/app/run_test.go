package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// logOf returns what is written to the standard error while a function runs.
func logOf(t *testing.T, f func()) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stderr")
	file := must.Get(os.Create(path))(t)
	stderr := os.Stderr
	os.Stderr = file
	f()
	klog.Flush()
	os.Stderr = stderr
	klog.ClearLogger()
	must.Succeed(t, file.Close())
	return string(must.Get(os.ReadFile(path))(t))
}

// aloneIn writes, into a folder, a configuration with these lines for a process whose API server is away, and returns
// its path.
func aloneIn(t *testing.T, folder string, lines string) string {
	t.Helper()
	kubeconfig, file := filepath.Join(folder, "kubeconfig"), filepath.Join(folder, "config.yaml")
	must.Succeed(t, os.WriteFile(kubeconfig, []byte("apiVersion: v1\nkind: Config\ncurrent-context: x\n"+
		"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"+
		"contexts: [{name: x, context: {cluster: c}}]\n"), 0o600))
	must.Succeed(t, os.WriteFile(file, fmt.Appendf(nil, "apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n"+
		"clientConnection: {kubeconfig: %s}\n%s\n", kubeconfig, lines), 0o600))
	return file
}

// startInVain runs the process with a configuration whose port is in use.
func startInVain(t *testing.T, logging string) {
	t.Helper()
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { must.Succeed(t, taken.Close()) }()
	file := aloneIn(t, t.TempDir(), fmt.Sprintf("logging: %s\n"+
		"serving: {bindAddress: 127.0.0.1, port: %d, authentication: {skipLookup: true}}", logging, taken.Addr().(*net.TCPAddr).Port))
	if got := command("--config", file); got.code != exitFailed || !strings.Contains(got.stderr, "address already in use") {
		t.Errorf("it ends with %d: %s", got.code, got.stderr)
	}
}

// The log has the configured form from its first line on, which says what starts. Pins MGR-25 and MGR-33.
func TestTheLogBeginsAsConfigured(t *testing.T) {
	log := logOf(t, func() { startInVain(t, "{format: json}") })
	lines := strings.Split(strings.TrimSpace(log), "\n")
	for n, line := range lines {
		var entry struct{ Msg, Version string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("%q is logged: %v", line, err)
		}
		if starts := entry.Msg == "Starting" && entry.Version != ""; starts != (n == 0) || entry.Msg == "Stopped" { // nothing ran
			t.Errorf("line %d is %q", n, line)
		}
	}
}

// A process that is sent SIGHUP, as others are to read their configuration again, says that this has no effect, and ends
// in good order when it is told to. Pins MGR-254.
func TestHangupEndsNothing(t *testing.T) {
	file := aloneIn(t, t.TempDir(), "serving: {port: 0}")
	log := logOf(t, func() {
		logged := func(message string) {
			await.True(t, "it is logged: "+message, func() bool {
				klog.Flush()
				return strings.Contains(string(must.Get(os.ReadFile(os.Stderr.Name()))(t)), message)
			})
		}
		ended := make(chan outcome, 1)
		go func() { ended <- command("--config", file) }()
		logged("Configuration in force")
		must.Succeed(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		logged("SIGHUP has no effect")
		must.Succeed(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		if got := <-ended; got.code != exitGood {
			t.Errorf("it ends with %d: %s", got.code, got.stderr)
		}
	})
	if !strings.Contains(log, "Stopping controllers") {
		t.Errorf("it did not end in good order:\n%s", log)
	}
}

// What the API server warns of is not logged, whoever makes a client in this process. Pins EP-5 and MGR-5.
func TestWarningsOfTheAPIServerAreDropped(t *testing.T) {
	rest.SetDefaultWarningHandler(rest.WarningLogger{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "this is deprecated"`)
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)
	var warnings bytes.Buffer
	t.Cleanup(func() { klog.LogToStderr(true) }) // to restore all of its state would race with whoever has logged
	klog.LogToStderr(false)
	ask := func() string {
		warnings.Reset()
		client := must.Get(kubernetes.NewForConfig(&rest.Config{Host: server.URL}))(t)
		must.Get(client.Discovery().ServerVersion())(t)
		klog.Flush()
		return warnings.String()
	}
	klog.SetOutput(&warnings)
	if log := ask(); !strings.Contains(log, "this is deprecated") {
		t.Fatalf("client-go logs %q by default", log)
	}
	logOf(t, func() { startInVain(t, "{}") })
	klog.SetOutput(&warnings)
	if log := ask(); log != "" {
		t.Errorf("%q is logged", log)
	}
}

// Time zones are known on a machine that has no files of them. Pins MGR-4.
func TestTimeZonesAreInTheBinary(t *testing.T) {
	binary := must.Get(os.ReadFile(must.Get(os.Executable())(t)))(t)
	// In two parts, since this file is in the binary too.
	if zone := strings.Join([]string{"America", "Argentina", "ComodRivadavia"}, "/"); !bytes.Contains(binary, []byte(zone)) {
		t.Errorf("the binary does not know the time in %s", zone)
	}
}
