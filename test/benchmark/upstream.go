package benchmark

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/controlplane/process"
)

// upstreamProcess is a running upstream manager.
type upstreamProcess struct{ *process.Process }

// Stop ends the process and waits for its end.
func (p upstreamProcess) Stop() error { return p.Process.Stop(stopGrace) }

func startUpstream(plane *controlplane.ControlPlane, binary string, args []string) (running, error) {
	folder, err := os.MkdirTemp(plane.Dir(), "manager-")
	if err != nil {
		return nil, fmt.Errorf("creating the manager's folder: %w", err)
	}
	p, err := process.Start(process.Spec{
		Name:    program,
		Path:    binary,
		Args:    args,
		Env:     []string{"HOME=" + folder, "KUBECONFIG="},
		Dir:     folder,
		LogFile: filepath.Join(folder, "manager.log"),
	})
	if err != nil {
		return nil, err
	}
	return upstreamProcess{p}, nil
}

// freePort returns a port of the loopback address that nobody listens on.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil || !ok {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	return address.Port, nil
}
