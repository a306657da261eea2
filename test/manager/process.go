package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/controlplane/process"
	"kcmd.dev/test/manager/program"
)

// stopGrace is longer than the default drainTimeout, so that a stop in good
// order is never mistaken for one that hangs.
const stopGrace = 20 * time.Second

// Process is a manager in a process of its own. Its methods may be called from
// several goroutines.
type Process struct {
	*instance
	process *process.Process
}

// StartProcess runs the real binary until the end of the test. edit changes the
// configuration it starts with; nil leaves Default. args are further arguments, among them a
// --config with another file.
func StartProcess(t testing.TB, cp *controlplane.ControlPlane, edit func(*Config), args ...string) *Process {
	t.Helper()
	p, err := LaunchProcess(t.Context(), cp, edit, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// JoinProcess is BeginProcess until the end of the test.
func JoinProcess(t testing.TB, cp *controlplane.ControlPlane, edit func(*Config), args ...string) *Process {
	t.Helper()
	p, err := BeginProcess(t.Context(), cp, edit, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// LaunchProcess is StartProcess outside of a test. The end of ctx aborts the start
// and has no effect later.
func LaunchProcess(ctx context.Context, cp *controlplane.ControlPlane, edit func(*Config), args ...string) (*Process, error) {
	p, err := BeginProcess(ctx, cp, edit, args...)
	if err != nil {
		return nil, err
	}
	if err := p.WaitRunning(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the manager: %w", err), p.Stop())
	}
	return p, nil
}

// BeginProcess is LaunchProcess that does not wait for anything: the manager may be
// one that stands by, or whose start fails.
func BeginProcess(ctx context.Context, cp *controlplane.ControlPlane, edit func(*Config), args ...string) (*Process, error) {
	binary, err := Build(ctx, cp.Dir())
	if err != nil {
		return nil, err
	}
	i, err := newInstance(cp, edit)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--config=") }) {
		args = append([]string{"--config=" + i.ConfigFile()}, args...)
	}
	child, err := process.Start(process.Spec{
		Name:    program.Name,
		Path:    binary,
		Args:    args,
		Env:     []string{"HOME=" + i.folder, "KUBECONFIG="},
		Dir:     i.folder,
		LogFile: i.LogFile(),
	})
	if err != nil {
		return nil, err
	}
	p := &Process{instance: i, process: child}
	p.status, p.done, p.failure = i.statusPage, child.Exited(), child.Err
	return p, nil
}

// Build compiles the manager into dir, unless it is there already, and returns the
// path of the binary.
func Build(ctx context.Context, dir string) (string, error) {
	root, err := binaries.Root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, program.Name)
	return binary, program.Provide(ctx, root, binary)
}

// PID returns the process id.
func (p *Process) PID() int { return p.process.PID() }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal, for example SIGTERM, SIGSTOP or SIGCONT.
func (p *Process) Signal(signal os.Signal) error { return p.process.Signal(signal) }

// Kill ends the process as kill -9 does and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// WaitExit waits until the process has ended by itself or through a signal, at most
// until the end of ctx. It returns nil for exit code 0, otherwise a
// *process.ExitError with the end of the log.
func (p *Process) WaitExit(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting for the end of the manager: %w", context.Cause(ctx))
	case <-p.done:
	}
	var exit *process.ExitError
	if err := p.process.Err(); errors.As(err, &exit) && exit.Err != nil {
		return exit
	}
	return nil
}

// Stop ends the process with SIGTERM, and with SIGKILL if that takes too long, and
// waits until it is gone. It does nothing to a process that has ended.
func (p *Process) Stop() error {
	p.client.CloseIdleConnections()
	return p.process.Stop(stopGrace)
}
