package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/controlplane/process"
)

// serverGrace is short: kube-apiserver would wait for the watches of scheduler,
// kwok and manager to end, which they do not as long as it answers.
const serverGrace = time.Second

// PauseAPIServer suspends kube-apiserver: connections stay open, nothing is
// answered, as when its machine hangs.
func (c *ControlPlane) PauseAPIServer() error { return c.signalAPIServer(syscall.SIGSTOP) }

// ResumeAPIServer lets a paused kube-apiserver go on.
func (c *ControlPlane) ResumeAPIServer() error { return c.signalAPIServer(syscall.SIGCONT) }

// StopAPIServer ends kube-apiserver; its port refuses connections until
// RestartAPIServer.
func (c *ControlPlane) StopAPIServer() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.apiServer()
	if err != nil {
		return err
	}
	return p.Stop(serverGrace)
}

// RestartAPIServer ends kube-apiserver, if it runs, starts it again on the same
// port and with the same data, and waits until it is ready.
func (c *ControlPlane) RestartAPIServer(ctx context.Context) error {
	if err := c.StopAPIServer(); err != nil {
		return fmt.Errorf("restarting kube-apiserver: %w", err)
	}
	c.mu.Lock()
	c.running = slices.DeleteFunc(c.running, isAPIServer)
	c.mu.Unlock()
	p, err := c.launch(c.apiServerSpec())
	if err != nil {
		return fmt.Errorf("restarting kube-apiserver: %w", err)
	}
	if err := c.waitFor(ctx, p, c.apiServerReady); err != nil {
		return fmt.Errorf("restarting kube-apiserver: %w", err)
	}
	go c.watch(p)
	return nil
}

// SetAPIServerArgs replaces Options.APIServerArgs. kube-apiserver gets them with the next
// RestartAPIServer.
func (c *ControlPlane) SetAPIServerArgs(args ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.options.APIServerArgs = args
}

func (c *ControlPlane) signalAPIServer(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.apiServer()
	if err != nil {
		return err
	}
	return p.Signal(sig)
}

// apiServer returns the current kube-apiserver; the caller holds mu.
func (c *ControlPlane) apiServer() (*process.Process, error) {
	if i := slices.IndexFunc(c.running, isAPIServer); i >= 0 {
		return c.running[i], nil
	}
	return nil, errors.New("kube-apiserver is not running")
}

func isAPIServer(p *process.Process) bool { return p.Name() == binaries.KubeAPIServer }
