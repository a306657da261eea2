// Package commands runs the commands that ask a running process, against one with the
// authentication and authorization of a real API server.
package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/cli/check"
	"kcmd.dev/pkg/cli/controllerlist"
	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/manager"
)

var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	os.Exit(controlplane.RunTests(m, controlplane.Options{}, func(c *controlplane.ControlPlane) { plane = c }))
}

// outcome is what a command led to.
type outcome struct {
	code           int
	stdout, stderr string
}

// program runs the real binary, as somebody without any configuration.
type program struct {
	path, home string
}

func (p program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Env = []string{"HOME=" + p.home, "KUBECONFIG="}
	cmd.Dir = p.home
	return cmd
}

func (p program) run(t *testing.T, args ...string) outcome {
	t.Helper()
	cmd := p.command(t.Context(), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// good checks that a command succeeded and wrote these parts.
func (o outcome) good(t *testing.T, parts ...string) {
	t.Helper()
	if o.code != 0 {
		t.Fatalf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	contains(t, o.stdout, parts)
}

// failed checks that a command failed and told of it in these parts.
func (o outcome) failed(t *testing.T, parts ...string) {
	t.Helper()
	if o.code != 1 {
		t.Fatalf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	contains(t, o.stderr, parts)
}

func contains(t *testing.T, text string, parts []string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
}

// file writes a file.
func file(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// token makes a service account and returns a file with a token of it.
func token(t *testing.T, namespace, name string) string {
	t.Helper()
	accounts := plane.AdminClient().CoreV1().ServiceAccounts(namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := accounts.Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return file(t, "token", []byte(request.Status.Token))
}

// grant does what a refusal advises to do: the same objects as kubectl would make.
func grant(t *testing.T, namespace, name string) {
	t.Helper()
	const role = "kube-controller-manager-viewer"
	roles := plane.AdminClient().RbacV1()
	_, err := roles.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/statusz", "/configz"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = roles.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// Somebody who may not see a process is told what to do, does it, and sees it.
func TestCommandsAskARunningProcess(t *testing.T) {
	certificates := t.TempDir()
	m := manager.StartProcess(t, plane, func(c *manager.Config) {
		c.Serving.TLS.CertDirectory = certificates
		c.Serving.Authorization.UnauthorizedTTL = &metav1.Duration{} // a refusal is not remembered
		c.Reload.SettleTime = &metav1.Duration{Duration: time.Millisecond}
	})
	binary, err := manager.Build(t.Context(), plane.Dir())
	if err != nil {
		t.Fatal(err)
	}
	p := program{path: binary, home: t.TempDir()}
	namespace := plane.Namespace(t)
	viewer := token(t, namespace, "viewer")
	trust := []string{"--config", m.ConfigFile(), "--ca-file", filepath.Join(certificates, "kube-controller-manager.crt")}
	as := func(command []string, who ...string) []string { return append(append(command, trust...), who...) }

	t.Run("without credentials", func(t *testing.T) {
		p.run(t, as([]string{"status"})...).failed(t, `403 Forbidden: forbidden: User "system:anonymous" cannot get path "/statusz"`,
			"Set them with --kubeconfig or --token-file.")
	})
	t.Run("with a token of nobody", func(t *testing.T) {
		p.run(t, as([]string{"status"}, "--token-file", file(t, "token", []byte("x.y.z")))...).failed(t, "could not authenticate the request: 401 Unauthorized")
	})
	t.Run("without trust", func(t *testing.T) {
		p.run(t, "status", "--config", m.ConfigFile(), "--token-file", viewer).failed(t, "signed by an unknown authority", "--ca-file")
	})
	t.Run("without rights", func(t *testing.T) {
		for _, command := range [][]string{{"status"}, {"controllers", "--live"}} {
			p.run(t, as(command, "--token-file", viewer)...).failed(t, "403 Forbidden",
				"kubectl create clusterrole kube-controller-manager-viewer --verb=get --non-resource-url=/statusz --non-resource-url=/configz",
				"kubectl create clusterrolebinding kube-controller-manager-viewer --clusterrole=kube-controller-manager-viewer --serviceaccount="+namespace+":viewer")
		}
		p.run(t, as([]string{"check-config", m.ConfigFile(), "--against", "live"}, "--token-file", viewer)...).failed(t, `cannot get path "/configz"`)
	})

	grant(t, namespace, "viewer")
	await.True(t, "what was advised helps", func() bool {
		return p.command(t.Context(), as([]string{"status"}, "--token-file", viewer)...).Run() == nil
	})
	t.Run("status", func(t *testing.T) { checkStatus(t, p, as([]string{"status"}, "--token-file", viewer)) })
	t.Run("status as an administrator", func(t *testing.T) {
		p.run(t, as([]string{"status"}, "--kubeconfig", plane.AdminKubeconfig())...).good(t, "Configuration:  generation 1, ")
	})
	t.Run("controllers", func(t *testing.T) {
		checkControllers(t, p, as([]string{"controllers", "--live"}, "--token-file", viewer))
	})
	t.Run("check-config", func(t *testing.T) { checkAgainstLive(t, p, m, as(nil, "--token-file", viewer)) })
	t.Run("watch", func(t *testing.T) {
		checkWatch(t, p, m, as([]string{"status", "--watch", "--interval", "20ms"}, "--token-file", viewer))
	})
	t.Run("a process that has ended", func(t *testing.T) {
		if err := m.Stop(); err != nil {
			t.Fatal(err)
		}
		p.run(t, "status", "--server", m.URL(), "--token-file", viewer).failed(t, "nothing listens on "+m.URL()+": connection refused")
	})
}

func checkStatus(t *testing.T, p program, command []string) {
	p.run(t, command...).good(t, "kube-controller-manager ", "Configuration:  generation 1, sha256:", "Last reload:    none since startup",
		"\nmain ", "\ndeployment-controller ", " Running ")
	got := p.run(t, append(command, "-o", "json")...)
	got.good(t)
	var status runtime.Status
	if err := json.Unmarshal([]byte(got.stdout), &status); err != nil {
		t.Fatal(err)
	}
	if !status.Leadership.Leading || len(status.Controllers) == 0 || status.Configuration.Generation != 1 {
		t.Errorf("the status is\n%s", got.stdout)
	}
}

func checkControllers(t *testing.T, p program, command []string) {
	got := p.run(t, append(command, "-o", "json")...)
	got.good(t)
	var list controllerlist.List
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil {
		t.Fatal(err)
	}
	running := 0
	for _, e := range list.Items {
		switch {
		case e.Built != (e.Status != nil):
			t.Errorf("%s is built: %t, its state is %+v", e.Name, e.Built, e.Status)
		case e.Status != nil && e.Status.State == supervisor.Running:
			running++
		}
	}
	if running < 10 {
		t.Errorf("%d controllers run:\n%s", running, got.stdout)
	}
	p.run(t, append(command, "deployment")...).good(t, "STATE", "deployment-controller  deployment    on       -     Running")
}

// What the commands say of an edit is what the process does then.
func checkAgainstLive(t *testing.T, p program, m *manager.Process, flags []string) {
	edit := func(c *manager.Config) { c.Controllers.Deployment.ConcurrentSyncs = ptr.To[int32](7) }
	next := m.Config()
	edit(next)
	data, err := config.Marshal(next)
	if err != nil {
		t.Fatal(err)
	}
	command := append([]string{"check-config", file(t, "next.yaml", data), "--against", "live"}, flags...)
	const change = "deployment-controller  restart  controllers.deployment-controller.concurrentSyncs: 5 → 7\n"
	p.run(t, command...).good(t, change)
	if err := errors.Join(m.Edit(t.Context(), edit), m.WaitRunning(t.Context())); err != nil { // the restart is counted
		t.Fatal(err)
	}
	got := p.run(t, append(command, "-o", "json")...)
	got.good(t)
	var report check.Report
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatal(err)
	}
	if report.Comparison == nil || !report.Comparison.Empty {
		t.Errorf("after the edit, the file is not what is in force:\n%s", got.stdout)
	}
	status := p.run(t, append([]string{"status"}, flags...)...)
	t.Logf("after an edit:\n%s", status.stdout)
	status.good(t, "Configuration:  generation 2, ", "Last reload:    success, ", "  "+change, "1 (config 1)")
}

// A watch shows what happens, until it is interrupted.
func checkWatch(t *testing.T, p program, m *manager.Process, command []string) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	cmd := p.command(t.Context(), command...)
	cmd.Stdout = writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := reader.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	awaitText(t, reader, "Configuration:  generation 2")
	valid, err := os.ReadFile(m.ConfigFile())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Write(append(valid, "\nmistake: 1\n"...)); err != nil {
		t.Fatal(err)
	}
	awaitText(t, reader, "Rejected:       the current content of the file is not in force:\n  "+m.ConfigFile()+":")
	// The file of the process says where to ask, although it is not valid any more.
	once := p.run(t, slices.DeleteFunc(slices.Clone(command), func(arg string) bool {
		return arg == "--watch" || arg == "--interval" || arg == "20ms"
	})...)
	once.good(t, ": mistake: unknown field")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if _, err := bytes.NewBuffer(nil).ReadFrom(reader); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("an interrupted watch ends with %v", err)
	}
}

func awaitText(t *testing.T, reader *os.File, want string) {
	t.Helper()
	var seen strings.Builder
	buffer := make([]byte, 4096)
	for !strings.Contains(seen.String(), want) {
		n, err := reader.Read(buffer)
		if err != nil {
			t.Fatalf("%v before %q was shown:\n%s", err, want, seen.String())
		}
		seen.Write(buffer[:n])
	}
}
