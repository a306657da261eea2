package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kcmd.dev/test/controlplane/process"
)

const (
	pollInterval = 50 * time.Millisecond
	// downTimeout is what a sandbox gets to end in order.
	downTimeout = 30 * time.Second
)

// detach runs `sandbox up` as a process of its own session and returns when its
// control plane is ready.
func detach(ctx context.Context, f folder, shape cluster) error {
	if _, running, err := f.readState(); err != nil || running {
		return errors.Join(err, errRunning)
	}
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return fmt.Errorf("creating the sandbox's folder: %w", err)
	}
	log, err := os.Create(f.logFile())
	if err != nil {
		return fmt.Errorf("creating the sandbox's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("starting the sandbox: %w", err)
	}
	supervisor := exec.Command(executable, append([]string{"up", "--dir=" + f.path}, shape.args()...)...)
	supervisor.Dir = f.root
	supervisor.Stdout, supervisor.Stderr = log, log
	supervisor.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := supervisor.Start(); err != nil {
		return fmt.Errorf("starting the sandbox: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = supervisor.Wait() // how it ended is in its log
		close(ended)
	}()
	if err := waitReady(ctx, f, supervisor.Process.Pid, ended); err != nil {
		_ = supervisor.Process.Signal(syscall.SIGTERM) // it may have ended already
		<-ended
		said, readErr := os.ReadFile(f.logFile())
		return errors.Join(err, readErr, fmt.Errorf("the sandbox said:\n%s", said))
	}
	fmt.Println(instructions(f, ""))
	return nil
}

func waitReady(ctx context.Context, f folder, pid int, ended <-chan struct{}) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		s, running, err := f.readState()
		if err != nil {
			return err
		}
		if running && s.Ready && s.Process.PID == pid {
			return nil
		}
		select {
		case <-tick.C:
		case <-ended:
			return errors.New("the sandbox ended while starting")
		case <-ctx.Done():
			return fmt.Errorf("waiting for the sandbox: %w", ctx.Err())
		}
	}
}

func newDownCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the running sandbox, if there is one, and remove its files",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			f, err := openFolder(*dir)
			if err != nil {
				return err
			}
			s, running, err := f.readState()
			if err != nil {
				return err
			}
			if !running {
				fmt.Println("no sandbox is running")
				return clearLeft(f)
			}
			if err := end(command.Context(), s.Process, downTimeout); err != nil {
				return err
			}
			fmt.Println("the sandbox is stopped")
			return clearLeft(f)
		},
	}
}

// clearLeft removes what a killed sandbox left; a folder that does not exist is
// not created, one that is in use is left alone.
func clearLeft(f folder) error {
	if _, err := os.Stat(f.path); errors.Is(err, os.ErrNotExist) || os.Getenv("KCMD_KEEP") != "" {
		return nil
	}
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return f.clear()
}

// end stops the process: SIGTERM, then SIGKILL after grace. The identity is
// checked before each signal, so that a reused process id is never hit.
func end(ctx context.Context, p process.Identity, grace time.Duration) error {
	if err := send(p, syscall.SIGTERM); err != nil {
		return err
	}
	if gone(ctx, p, grace) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("waiting for process %d to end: %w", p.PID, err)
	}
	if err := send(p, syscall.SIGKILL); err != nil {
		return err
	}
	if !gone(ctx, p, grace) {
		return fmt.Errorf("process %d does not end", p.PID)
	}
	return nil
}

func send(p process.Identity, sig syscall.Signal) error {
	if !p.Alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("sending %v to process %d: %w", sig, p.PID, err)
	}
	return nil
}

// gone reports whether the process ended within the given time.
func gone(ctx context.Context, p process.Identity, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for p.Alive() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func newStatusCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Tell whether a sandbox is running; exits with 1 when none is",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			f, err := openFolder(*dir)
			if err != nil {
				return err
			}
			s, running, err := f.readState()
			if err != nil {
				return err
			}
			if !running {
				return errors.New("no sandbox is running")
			}
			if !s.Ready {
				fmt.Printf("starting, process %d\n", s.Process.PID)
				return nil
			}
			fmt.Printf("running, process %d, %d nodes, API server %s\nexport KUBECONFIG=%s\n", s.Process.PID, s.Nodes, s.Server, f.adminKubeconfig())
			return nil
		},
	}
}
