package benchmark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"kcmd.dev/pkg/controllers"
	"kcmd.dev/test/benchmark/report"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/manager"
)

// program is the name by which both programs are started: it becomes part of their user
// agent, and with it of every managed field.
const program = "kube-controller-manager"

// running is a manager that runs.
type running interface {
	PID() int
	// Signal sends a signal.
	Signal(os.Signal) error
	// Exited is closed when the process has ended.
	Exited() <-chan struct{}
	// Stop ends the process and waits for its end.
	Stop() error
}

// settings are what a scenario may choose for a manager.
type settings struct {
	mode Mode
	// deploymentSyncs is concurrentSyncs of deployment-controller; 0 is the default.
	deploymentSyncs int32
	// alone switches leader election off.
	alone bool
}

// limits returns requests per second and burst; ok is false for the product's default.
func (s settings) limits() (qps float32, burst int32, ok bool) {
	switch s.mode {
	case Unlimited:
		return 5000, 10000, true
	case Limited:
		return 20, 30, true
	case Defaults:
	}
	return 0, 0, false
}

// subject is a program that is measured.
type subject interface {
	// start starts a manager; it need not be ready on return.
	start(ctx context.Context, plane *controlplane.ControlPlane, s settings) (running, error)
	// change makes a running manager work with other settings, in whatever way that is
	// done, and returns when it has been asked to: the manager that will have them.
	change(ctx context.Context, plane *controlplane.ControlPlane, old running, s settings) (running, error)
}

// programs are the built programs.
type programs struct{ ours, upstream string }

// build builds what the subjects need: ours into folder, upstream's into .bin.
func build(ctx context.Context, o *Options, folder string) (programs, error) {
	var p programs
	for _, name := range o.Subjects {
		var err error
		switch name {
		case report.Ours:
			p.ours, err = manager.Build(ctx, folder)
		case report.Upstream:
			var bin string
			bin, err = binaries.Build(ctx, o.Log, binaries.UpstreamManager)
			p.upstream = filepath.Join(bin, binaries.UpstreamManager)
		}
		if err != nil {
			return programs{}, err
		}
	}
	return p, nil
}

func (p programs) subject(name string) subject {
	if name == report.Ours {
		return ours{binary: p.ours}
	}
	return upstream{binary: p.upstream}
}

// link makes the program available in a control plane's folder under the common name.
func link(binary string, plane *controlplane.ControlPlane) (string, error) {
	path := filepath.Join(plane.Dir(), program)
	if err := os.Symlink(binary, path); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("linking the manager: %w", err)
	}
	return path, nil
}

// controllerNames are the controllers that both run: those we have.
func controllerNames() []string {
	var names []string
	for _, d := range controllers.All() {
		names = append(names, d.Name)
	}
	return names
}

// ours is the program of this repository.
type ours struct{ binary string }

// process adapts a manager of package manager.
type ourProcess struct{ *manager.Process }

func (p ourProcess) Exited() <-chan struct{} { return p.Done() }

func (o ours) start(ctx context.Context, plane *controlplane.ControlPlane, s settings) (running, error) {
	// The program is built already, so package manager need not do it for each plane.
	if _, err := link(o.binary, plane); err != nil {
		return nil, err
	}
	p, err := manager.BeginProcess(ctx, plane, s.apply)
	if err != nil {
		return nil, err
	}
	return ourProcess{p}, nil
}

// change edits the file and waits until the process says that the edit is in force and
// every controller runs with it.
func (o ours) change(ctx context.Context, _ *controlplane.ControlPlane, old running, s settings) (running, error) {
	p, ok := old.(ourProcess)
	if !ok {
		return nil, errors.New("changing the settings: not our manager")
	}
	if err := p.Edit(ctx, s.apply); err != nil {
		return nil, fmt.Errorf("changing the settings: %w", err)
	}
	return p, p.WaitRunning(ctx)
}

func (s settings) apply(c *manager.Config) {
	if qps, burst, ok := s.limits(); ok {
		c.ClientConnection.QPS, c.ClientConnection.Burst = &qps, &burst
	}
	if s.deploymentSyncs != 0 {
		c.Controllers.Deployment.ConcurrentSyncs = &s.deploymentSyncs
	}
	elect := !s.alone
	c.LeaderElection.LeaderElect = &elect
}

// upstream is kube-controller-manager of the release.
type upstream struct{ binary string }

func (u upstream) start(_ context.Context, plane *controlplane.ControlPlane, s settings) (running, error) {
	path, err := link(u.binary, plane)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	return startUpstream(plane, path, upstreamArgs(plane, port, s))
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

// upstreamArgs are the flags kubeadm gives it, with the restriction to our
// controllers and the chosen limits.
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

// stopGrace is what a manager gets to end by itself.
const stopGrace = 20 * time.Second
