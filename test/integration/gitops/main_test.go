// Package gitops tests the way of an edit from a repository to running controllers: the
// manifests in configs/ are what they say, they can be applied, the identity they set up
// has every right that the controllers need, and a mounted ConfigMap is followed edit by
// edit.
package gitops

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/controlplane/binaries"
)

// patience bounds every wait of these tests; it is long because the machine may be busy.
const patience = 40 * time.Second

var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	options := controlplane.Options{Nodes: 3, Scheduler: true}
	os.Exit(controlplane.RunTests(m, options, func(cp *controlplane.ControlPlane) { plane = cp }))
}

// configs is the folder of the samples.
func configs(t testing.TB, parts ...string) string {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(append([]string{root, "configs"}, parts...)...)
}

// kubectl runs the kubectl of the control plane's version and returns what it prints.
func kubectl(ctx context.Context, t testing.TB, stdin []byte, args ...string) []byte {
	t.Helper()
	bin, err := binaries.Build(ctx, os.Stderr, binaries.Kubectl)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(ctx, filepath.Join(bin, binaries.Kubectl), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+plane.AdminKubeconfig())
	command.Stdin = bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, stderr.Bytes())
	}
	return stdout.Bytes()
}
