package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kcmd.dev/pkg/config/inputs"
)

// pipe returns the name of a pipe with a content, as a shell makes one of <(COMMAND).
func pipe(t *testing.T, content string) string {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = writer.WriteString(content) // fails if nobody reads it to the end
		_ = writer.Close()
	}()
	t.Cleanup(func() {
		_ = reader.Close()
		<-done
	})
	return fmt.Sprintf("/dev/fd/%d", reader.Fd())
}

func TestCommandsReadPipes(t *testing.T) {
	before, after := readTestdata(t, "before.yaml"), readTestdata(t, "after.yaml")
	command("check-config", "testdata/after.yaml", "--against", pipe(t, before)).check(t, outcome{stdout: readTestdata(t, "plan.txt")})
	command("check-config", pipe(t, after), "--against", pipe(t, before)).check(t, outcome{stdout: readTestdata(t, "plan.txt")})
	name := pipe(t, after+"new: x\n")
	if got := command("check-config", name); got.code != exitFailed || !strings.HasPrefix(got.stderr, name+":23:1: new: unknown field") {
		t.Errorf("%+v", got)
	}
	command("config", "convert", pipe(t, before)).check(t, outcome{stdout: before})
	if got := command("config", "diff", pipe(t, before), pipe(t, before)); got.code != exitGood || got.stdout != "no changes\n" {
		t.Errorf("%+v", got)
	}
	if got := command("config", "view", pipe(t, before)); got.code != exitGood {
		t.Errorf("%+v", got)
	}
	if got := command("config", "from-flags", "--command-line", pipe(t, "kube-controller-manager --v=2")); got.code != exitGood {
		t.Errorf("%+v", got)
	}
	if got := command("status", "--token-file", "testdata/token", "--config", pipe(t, before+"serving: {bindAddress: 127.0.0.1, port: 1}\n")); !strings.HasPrefix(got.stderr, "Error: nothing listens on https://127.0.0.1:1:") {
		t.Errorf("%+v", got)
	}
}

func TestPipesAreReadUpToALimit(t *testing.T) {
	large := strings.Repeat("#", inputs.MaxFileBytes) + "\n\n"
	name := pipe(t, large)
	command("check-config", name).check(t, outcome{code: exitFailed, stderr: name + ": is larger than 16777216 bytes\n"})
	name = pipe(t, large)
	command("config", "from-flags", "--manifest", name).check(t, outcome{code: exitFailed, stderr: "Error: " + name + " is larger than 16777216 bytes\n"})
	command("check-config", "/dev/null").check(t, outcome{
		code:   exitFailed,
		stderr: "/dev/null:1:1: an empty file is not a configuration: a configuration needs at least\n  apiVersion: config.kcmd.dev/v1beta1\n  kind: KubeControllerManagerConfiguration\n",
	})
	command("check-config", "/dev/zero").check(t, outcome{code: exitFailed, stderr: "/dev/zero: is larger than 16777216 bytes\n"})
}

// A pipe in a folder is not read: nobody may ever write to it.
func TestPipesInFoldersAreProblems(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "pipe.yaml")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	command("check-config", dir).check(t, outcome{code: exitFailed, stderr: name + ": not a regular file\n"})
}

// The standard input has several names. It may be a socket, whose file cannot be opened.
func TestStandardInputByItsFile(t *testing.T) {
	for _, name := range []string{"-", "/dev/stdin", "/dev/fd/0"} {
		root := newRoot()
		root.SetIn(strings.NewReader(readTestdata(t, "before.yaml")))
		var stdout, stderr strings.Builder
		code := executeRoot(root, []string{"check-config", "testdata/after.yaml", "--against", name}, &stdout, &stderr)
		outcome{code, stdout.String(), stderr.String()}.check(t, outcome{stdout: readTestdata(t, "plan.txt")})
	}
}

// A pull request that repairs a configuration is checked, and its effect shown as far as it is known.
func TestARepairCanBeChecked(t *testing.T) {
	got := command("check-config", "--fail-on", "warning", "--exit-code", "testdata/before.yaml", "--against", "testdata/invalid.yaml")
	if got.code != exitChanged || !strings.Contains(got.stdout, "in place  ") || strings.Count(got.stderr, ": warning: ") != 3 ||
		!strings.HasSuffix(got.stderr, " of a change from it without controllers.deployment-controler, controllers.replicaset-controller.concurrentSyncs, leaderElection.leaseDuration\n") {
		t.Errorf("%+v", got)
	}
	got = command("check-config", "--exit-code", "testdata/before.yaml", "--against", pipe(t, "<<<<<<< HEAD\nx: y\n"))
	if got.code != exitChanged || got.stdout != "" || !strings.HasSuffix(got.stderr, "is invalid and nothing in it can be used: there is no Plan\n") {
		t.Errorf("%+v", got)
	}
}

// A cluster of kubeadm that migrates passes the check of the samples for GitHub and GitLab.
func TestAMigratedFilePassesTheCheckOfTheSamples(t *testing.T) {
	converted := command("config", "from-flags", "--manifest", "../../../pkg/config/fromflags/testdata/kubeadm-1.36.yaml")
	if converted.code != exitGood {
		t.Fatalf("%+v", converted)
	}
	name := pipe(t, converted.stdout)
	command("check-config", "--fail-on", "warning", name).check(t, outcome{stdout: name + " is valid\n"})
}
