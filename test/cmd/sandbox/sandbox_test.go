package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/controlplane/process"
	"kcmd.dev/test/manager/program"
)

// commandMode makes the test binary behave as the sandbox command itself, so
// that the tests start it as a user does.
const commandMode = "KCMD_SANDBOX_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(commandMode) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// sandbox runs the command in a folder and returns what it printed.
func sandbox(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	command := exec.Command(os.Args[0], append(args, "--dir="+dir)...)
	command.Env = append(os.Environ(), commandMode+"=1", "KCMD_KEEP=")
	out, err := command.CombinedOutput()
	return string(out), err
}

func TestDetachedSandbox(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sandbox")
	t.Cleanup(func() { _, _ = sandbox(t, dir, "down") })
	begin := time.Now()
	if out, err := sandbox(t, dir, "up", "--detach", "--nodes=2"); err != nil || !strings.Contains(out, "export KUBECONFIG="+dir+"/admin.conf") {
		t.Fatalf("up: %v\n%s", err, out)
	}
	t.Logf("up after %s", time.Since(begin).Round(10*time.Millisecond))
	if out, err := sandbox(t, dir, "status"); err != nil || !strings.Contains(out, "running") || !strings.Contains(out, "2 nodes") {
		t.Errorf("status: %v\n%s", err, out)
	}
	if out, err := sandbox(t, dir, "up"); err == nil || !strings.Contains(out, errRunning.Error()) {
		t.Errorf("a second sandbox in the folder: %v\n%s", err, out)
	}
	for _, name := range []string{"admin.conf", "controller-manager.conf"} {
		if err := discover(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := folder{path: dir}
	s, running, err := f.readState()
	if err != nil || !running {
		t.Fatalf("state: %v %v", running, err)
	}
	begin = time.Now()
	if out, err := sandbox(t, dir, "down"); err != nil || !strings.Contains(out, "is stopped") {
		t.Errorf("down: %v\n%s", err, out)
	}
	t.Logf("down after %s", time.Since(begin).Round(10*time.Millisecond))
	if s.Process.Alive() {
		t.Error("the sandbox runs after down")
	}
	if out, err := sandbox(t, dir, "down"); err != nil || !strings.Contains(out, "no sandbox is running") {
		t.Errorf("second down: %v\n%s", err, out)
	}
	if out, err := sandbox(t, dir, "status"); err == nil {
		t.Errorf("status after down:\n%s", out)
	}
	if left := list(t, dir); !slices.Equal(left, []string{"lock", "sandbox.log"}) {
		t.Errorf("left in the folder: %v", left)
	}
}

func TestDownClearsAfterAKilledSandbox(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sandbox")
	t.Cleanup(func() { _, _ = sandbox(t, dir, "down") })
	if out, err := sandbox(t, dir, "up", "--detach", "--nodes=0", "--scheduler=false"); err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	s, _, err := folder{path: dir}.readState()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.Process.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server is gone", func() bool {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Discovery().ServerVersion()
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	if out, err := sandbox(t, dir, "down"); err != nil || !strings.Contains(out, "no sandbox is running") {
		t.Errorf("down: %v\n%s", err, out)
	}
	if left := list(t, dir); !slices.Equal(left, []string{"lock", "sandbox.log"}) {
		t.Errorf("left in the folder: %v", left)
	}
}

func TestFailedDetachShowsWhy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sandbox")
	out, err := sandbox(t, dir, "up", "--detach", "--nodes=0", "--apiserver-arg=--no-such-flag")
	if err == nil || !strings.Contains(out, "unknown flag: --no-such-flag") {
		t.Errorf("got %v\n%s", err, out)
	}
	if _, running, err := (folder{path: dir}).readState(); err != nil || running {
		t.Errorf("state: %v %v", running, err)
	}
}

// The manager here is a script: it proves what it found when it started and that
// it was asked to end while the API server still answered.
const managerScript = `#!/bin/sh
trap 'kubectl version >"$OUT/at-the-end" 2>&1; exit 0' TERM
kubectl version >"$OUT/at-the-start" 2>&1
echo "$@" >"$OUT/arguments.new"
mv "$OUT/arguments.new" "$OUT/arguments"
while :; do sleep 0.05; done
`

func TestRunStopsTheManagerFirst(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	bin, err := binaries.Build(t.Context(), os.Stderr, binaries.Kubectl)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	f := folder{root: root, path: filepath.Join(out, "sandbox")}
	script := filepath.Join(out, "manager")
	if err := os.WriteFile(script, []byte(managerScript), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OUT", out)
	t.Setenv("KUBECONFIG", f.file("controller-manager.conf"))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("KCMD_KEEP", "")

	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan error, 1)
	go func() { ended <- runManager(ctx, f, cluster{}, script, "configs/sandbox.yaml") }()
	eventually(t, "the manager runs", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("run ended early: %v", err)
		default:
		}
		arguments, err := os.ReadFile(filepath.Join(out, "arguments"))
		return err == nil && string(arguments) == "--config configs/sandbox.yaml\n"
	})
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
	for _, name := range []string{"at-the-start", "at-the-end"} {
		data, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || !strings.Contains(string(data), "Server Version: v1.36.3") {
			t.Errorf("%s: %v\n%s", name, err, data)
		}
	}
	if left := list(t, f.path); !slices.Equal(left, []string{"lock"}) {
		t.Errorf("left in the folder: %v", left)
	}
}

func TestRunEndsWithTheManager(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	f := folder{root: root, path: filepath.Join(t.TempDir(), "sandbox")}
	err = runManager(t.Context(), f, cluster{}, "false", "x.yaml")
	var exit *process.ExitError
	if !errors.As(err, &exit) || exit.Name != program.Name {
		t.Errorf("got %v, want the manager's end", err)
	}
}

func TestResolveConfig(t *testing.T) {
	root := t.TempDir()
	outside := filepath.Join(t.TempDir(), "mine.yaml")
	sample := filepath.Join(root, "configs", "sandbox.yaml")
	if err := os.Mkdir(filepath.Dir(sample), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{sample, outside} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		config, want string
		fails        bool
	}{
		"default":        {want: "configs/sandbox.yaml"},
		"in repository":  {config: sample, want: "configs/sandbox.yaml"},
		"elsewhere":      {config: outside, want: outside},
		"does not exist": {config: outside + ".none", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := resolveConfig(root, tc.config)
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestStateOfAnotherProcessIsNotRunning(t *testing.T) {
	f := folder{path: t.TempDir()}
	self, err := process.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		identity process.Identity
		running  bool
	}{
		"this one":           {identity: self, running: true},
		"reused process id":  {identity: process.Identity{PID: self.PID, StartTime: self.StartTime - 1, BootID: self.BootID}},
		"before a reboot":    {identity: process.Identity{PID: self.PID, StartTime: self.StartTime, BootID: "other"}},
		"no such process id": {identity: process.Identity{PID: 1 << 30, BootID: self.BootID}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := f.writeState(state{Process: tc.identity}); err != nil {
				t.Fatal(err)
			}
			if _, running, err := f.readState(); running != tc.running || err != nil {
				t.Errorf("running %v, %v", running, err)
			}
		})
	}
}

func discover(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = client.Discovery().ServerVersion()
	return err
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waiting until %s: %v", what, ctx.Err())
		}
	}
}
