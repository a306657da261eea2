package benchmark

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/controlplane/process"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/ports"
)

// stopGrace is what a manager gets to end by itself.
const stopGrace = 20 * time.Second

// upstream is kube-controller-manager of the release.
type upstream struct{ binary string }

func (u upstream) start(_ context.Context, plane *controlplane.ControlPlane, s settings) (running, error) {
	path, err := link(u.binary, plane)
	if err != nil {
		return nil, err
	}
	port, err := ports.Free()
	if err != nil {
		return nil, err
	}
	client, err := manager.NewClient(plane.AdminConfig())
	if err != nil {
		return nil, err
	}
	p, err := startUpstream(plane, path, upstreamArgs(plane, port, s))
	if err != nil {
		return nil, err
	}
	return upstreamProcess{p, client, fmt.Sprintf("https://127.0.0.1:%d", port)}, nil
}

// change ends the process and starts another one with other flags, as an edit of its
// static pod manifest does.
func (u upstream) change(ctx context.Context, plane *controlplane.ControlPlane, old running, s settings) (running, error) {
	if err := old.Signal(syscall.SIGTERM); err != nil {
		return nil, err
	}
	select {
	case <-old.Exited():
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the end of the manager: %w", context.Cause(ctx))
	}
	return u.start(ctx, plane, s)
}

// upstreamArgs are the flags kubeadm gives it, with the controllers that both run and the
// chosen limits.
func upstreamArgs(plane *controlplane.ControlPlane, port int, s settings) []string {
	args := []string{
		"--kubeconfig=" + plane.ManagerKubeconfig(),
		"--authentication-kubeconfig=" + plane.ManagerKubeconfig(),
		"--authorization-kubeconfig=" + plane.ManagerKubeconfig(),
		"--client-ca-file=" + plane.RootCAFile(),
		"--requestheader-client-ca-file=" + plane.RequestHeaderCAFile(),
		"--root-ca-file=" + plane.RootCAFile(),
		"--cluster-signing-cert-file=" + plane.RootCAFile(),
		"--cluster-signing-key-file=" + plane.RootCAKeyFile(),
		"--service-account-private-key-file=" + plane.ServiceAccountKeyFile(),
		"--use-service-account-credentials=true",
		fmt.Sprintf("--leader-elect=%t", !s.alone),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--controllers=" + strings.Join(controllerNames(), ","),
	}
	if qps, burst, ok := s.limits(); ok {
		args = append(args, fmt.Sprintf("--kube-api-qps=%g", qps), fmt.Sprintf("--kube-api-burst=%d", burst))
	}
	if s.deploymentSyncs != 0 {
		args = append(args, fmt.Sprintf("--concurrent-deployment-syncs=%d", s.deploymentSyncs))
	}
	return args
}

// upstreamProcess is a running upstream manager.
type upstreamProcess struct {
	*process.Process
	client *http.Client
	url    string
}

// Stop ends the process and waits for its end.
func (p upstreamProcess) Stop() error {
	p.client.CloseIdleConnections()
	return p.Process.Stop(stopGrace)
}

// Get reads a path of its endpoint.
func (p upstreamProcess) Get(ctx context.Context, path string) ([]byte, error) {
	return get(ctx, p.client, p.url+path)
}

func startUpstream(plane *controlplane.ControlPlane, binary string, args []string) (*process.Process, error) {
	folder, err := os.MkdirTemp(plane.Dir(), "manager-")
	if err != nil {
		return nil, fmt.Errorf("creating the manager's folder: %w", err)
	}
	return process.Start(process.Spec{
		Name:    program,
		Path:    binary,
		Args:    args,
		Env:     []string{"HOME=" + folder, "KUBECONFIG="},
		Dir:     folder,
		LogFile: filepath.Join(folder, "logs", "manager.log"),
	})
}
