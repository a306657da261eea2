// Package process runs a child process that can never outlive its parent.
//
//  1. A child is the leader of its own process group: a Ctrl-C typed in the
//     terminal reaches only the parent, which then stops its children in order.
//  2. The kernel kills the child when the parent dies in any way, kill -9
//     included. Linux ties that promise to the thread that forked, so each child
//     is started by a goroutine that keeps its operating-system thread until the
//     child has ended.
//  3. Stop asks the group with SIGTERM, waits a grace period, then sends SIGKILL.
//     It returns when the child is gone.
//  4. An unexpected exit is an *ExitError with the tail of the log.
//
// The package needs Linux (parent-death signal, /proc).
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// suspendTimeout bounds how long threads may take to stop, which is microseconds on an idle machine.
const suspendTimeout = 10 * time.Second

// Spec says what to run.
type Spec struct {
	// Name is what messages call the process, for example "etcd".
	Name string
	// Path is the binary; a name without a slash is looked up in PATH.
	Path string
	Args []string
	// Env is added to the parent's environment.
	Env []string
	// Dir is the working directory; default: the parent's.
	Dir string
	// LogFile receives stdout and stderr, appended. Its folder is created. It wins over Output.
	LogFile string
	// Output receives stdout and stderr when LogFile is empty; nil discards them.
	Output io.Writer
	// Stderr, when set, receives stderr in place of Output.
	Stderr io.Writer
	// PrivateMounts keeps what the child mounts to itself, so that it ends with the child.
	// It needs root.
	PrivateMounts bool
}

// Process is a started child.
type Process struct {
	spec     Spec
	cmd      *exec.Cmd
	stopping atomic.Bool
	exited   chan struct{}
	waitErr  error // set before exited is closed
}

// ExitError reports a process that ended although nobody stopped it.
type ExitError struct {
	Name string
	// Err is what waiting for the process returned; nil when it exited with 0.
	Err error
	// LogTail is the end of its log; empty without a log file.
	LogTail string
}

func (e *ExitError) Error() string {
	state := "exit status 0"
	if e.Err != nil {
		state = e.Err.Error()
	}
	if e.LogTail == "" {
		return fmt.Sprintf("%s ended unexpectedly: %s", e.Name, state)
	}
	return fmt.Sprintf("%s ended unexpectedly: %s; end of its log:\n%s", e.Name, state, e.LogTail)
}

func (e *ExitError) Unwrap() error { return e.Err }

// Start runs the child described by spec.
func Start(spec Spec) (*Process, error) {
	p := &Process{spec: spec, cmd: exec.Command(spec.Path, spec.Args...), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), spec.Env...)
	p.cmd.Dir = spec.Dir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if spec.PrivateMounts {
		p.cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	// A grandchild that holds the output open must not keep Wait from returning.
	p.cmd.WaitDelay = time.Second

	output, closeOutput, err := spec.output()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	if spec.Stderr != nil {
		p.cmd.Stderr = spec.Stderr
	}

	started := make(chan error, 1)
	go p.run(started, closeOutput)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	return p, nil
}

// run owns the thread the kernel ties the child's life to: the goroutine never
// unlocks it, so the runtime ends the thread only after the child has ended.
func (p *Process) run(started chan<- error, closeOutput func()) {
	runtime.LockOSThread()
	defer closeOutput()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	p.waitErr = p.cmd.Wait()
	close(p.exited)
}

func (s Spec) output() (io.Writer, func(), error) {
	if s.LogFile == "" {
		return s.Output, func() {}, nil
	}
	if err := os.MkdirAll(filepath.Dir(s.LogFile), 0o700); err != nil {
		return nil, nil, fmt.Errorf("creating the folder of the log of %s: %w", s.Name, err)
	}
	f, err := os.OpenFile(s.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the log of %s: %w", s.Name, err)
	}
	return f, func() { _ = f.Close() }, nil
}

// Name returns the name given in the Spec.
func (p *Process) Name() string { return p.spec.Name }

// PID returns the process id, which is also its process group's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended and was waited for.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err returns nil while the process runs and after a Stop; otherwise an
// *ExitError.
func (p *Process) Err() error {
	select {
	case <-p.exited:
	default:
		return nil
	}
	if p.stopping.Load() {
		return nil
	}
	return &ExitError{Name: p.spec.Name, Err: p.waitErr, LogTail: tail(p.spec.LogFile)}
}

// Signal sends sig to the process. It fails with os.ErrProcessDone when the
// process has ended.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("sending %v to %s: %w", sig, p.spec.Name, err)
	}
	return nil
}

// Suspend has the process stop until it is sent SIGCONT, and returns when none of its threads runs any more: those that
// run on other processors do so for a moment after SIGSTOP.
func (p *Process) Suspend() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(suspendTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if stopped, err := allStopped(p.PID()); err != nil || stopped {
			return err
		}
	}
	return fmt.Errorf("%s still runs %s after SIGSTOP", p.spec.Name, suspendTimeout)
}

// allStopped reports whether all threads of a process are stopped.
func allStopped(pid int) (bool, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			return false, fmt.Errorf("reading the state of a thread: %w", err)
		}
		// The state follows the name, which is in parentheses.
		if _, state, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " "); !strings.HasPrefix(state, "T") {
			return false, nil
		}
	}
	return true, nil
}

// Stop ends the process and its children: SIGTERM (and SIGCONT, in case it is
// suspended), then SIGKILL after grace, each to the process group. It is
// idempotent and returns once the process is gone.
func (p *Process) Stop(grace time.Duration) error {
	p.stopping.Store(true)
	if err := errors.Join(p.signalGroup(syscall.SIGTERM), p.signalGroup(syscall.SIGCONT)); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
		return nil
	case <-timer.C:
	}
	if err := p.signalGroup(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// signalGroup does nothing once the process was waited for, because its id may
// then be another's.
func (p *Process) signalGroup(sig syscall.Signal) error {
	select {
	case <-p.exited:
		return nil
	default:
	}
	if err := syscall.Kill(-p.PID(), sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("sending %v to the group of %s: %w", sig, p.spec.Name, err)
	}
	return nil
}

// Run starts a short-lived process and waits for it. When ctx ends first, the
// process is stopped and the context's error returned.
func Run(ctx context.Context, spec Spec) error {
	p, err := Start(spec)
	if err != nil {
		return err
	}
	select {
	case <-p.exited:
		return p.waitErr
	case <-ctx.Done():
		return errors.Join(ctx.Err(), p.Stop(5*time.Second))
	}
}

// tail returns the last part of a log file, at most 4 KiB.
func tail(path string) string {
	const size = 4 << 10
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > size {
		if _, err := f.Seek(-size, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	return string(data)
}
