// Package upstream runs the unmodified kube-controller-manager of the Kubernetes release, for comparison.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/controlplane/process"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/ports"
)

// Name is that of the program.
const Name = "kube-controller-manager"

// stopGrace is what a manager gets to end by itself.
const stopGrace = 20 * time.Second

// Manager is a running manager.
type Manager struct {
	*process.Process
	client *http.Client
	url    string
}

// Flags are those that kubeadm gives a manager, except for its lease, with the controllers that are to run.
func Flags(plane *controlplane.ControlPlane, kubeconfig string, controllers []string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--client-ca-file=" + plane.RootCAFile(),
		"--requestheader-client-ca-file=" + plane.RequestHeaderCAFile(),
		"--root-ca-file=" + plane.RootCAFile(),
		"--cluster-signing-cert-file=" + plane.RootCAFile(),
		"--cluster-signing-key-file=" + plane.RootCAKeyFile(),
		"--service-account-private-key-file=" + plane.ServiceAccountKeyFile(),
		"--use-service-account-credentials=true",
		"--bind-address=127.0.0.1",
		"--controllers=" + strings.Join(controllers, ","),
	}
}

// Start starts a binary of the manager with some flags, on a free port and in a folder of its own.
func Start(plane *controlplane.ControlPlane, binary string, flags []string) (*Manager, error) {
	port, err := ports.Free()
	if err != nil {
		return nil, err
	}
	client, err := manager.NewClient(plane.AdminConfig())
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(plane.Dir(), "manager-")
	if err != nil {
		return nil, fmt.Errorf("creating the manager's folder: %w", err)
	}
	p, err := process.Start(process.Spec{
		Name:    Name,
		Path:    binary,
		Args:    append([]string{fmt.Sprintf("--secure-port=%d", port)}, flags...),
		Env:     []string{"HOME=" + folder, "KUBECONFIG="},
		Dir:     folder,
		LogFile: filepath.Join(folder, "logs", "manager.log"),
	})
	if err != nil {
		return nil, err
	}
	return &Manager{p, client, fmt.Sprintf("https://127.0.0.1:%d", port)}, nil
}

// Stop ends the process and waits for its end.
func (m *Manager) Stop() error {
	m.client.CloseIdleConnections()
	return m.Process.Stop(stopGrace)
}

// Get reads a path of its endpoint.
func (m *Manager) Get(ctx context.Context, path string) ([]byte, error) {
	return manager.Get(ctx, m.client, m.url+path)
}

// Healthy is nil when the manager runs and says that it is healthy.
func (m *Manager) Healthy(ctx context.Context) error {
	_, err := m.Get(ctx, "/healthz")
	return errors.Join(err, m.Err())
}
