package controlplane

import (
	"context"
	"fmt"
	"os"
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
func (c *ControlPlane) PauseAPIServer() error {
	return c.suspend(binaries.KubeAPIServer)
}

// ResumeAPIServer lets a paused kube-apiserver go on.
func (c *ControlPlane) ResumeAPIServer() error {
	return c.resume(binaries.KubeAPIServer)
}

// StopAPIServer ends kube-apiserver; its port refuses connections until
// RestartAPIServer.
func (c *ControlPlane) StopAPIServer() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.apiServer()
	if err != nil {
		return err
	}
	if err := p.Stop(serverGrace); err != nil {
		return err
	}
	return c.audit.forget()
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

// SnapshotEtcd keeps what etcd has stored by now in a folder, which it returns and which is
// removed with that of the control plane. etcd stops for it; it returns when kube-apiserver
// has found it again, which may take some seconds.
func (c *ControlPlane) SnapshotEtcd(ctx context.Context) (snapshot string, err error) {
	err = c.whileEtcdStops(ctx, func() error {
		if snapshot, err = os.MkdirTemp(c.dir, "etcd-snapshot-"); err != nil {
			return err
		}
		return os.CopyFS(snapshot, os.DirFS(c.etcdData()))
	})
	if err == nil {
		err = c.waitForAPIServer(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("taking a snapshot of etcd: %w", err)
	}
	return snapshot, nil
}

func (c *ControlPlane) waitForAPIServer(ctx context.Context) error {
	c.mu.Lock()
	p, err := c.apiServer()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.waitFor(ctx, p, c.apiServerReady)
}

// RestoreEtcd has etcd go on from a snapshot, and restarts kube-apiserver as one has to. All
// that was written since the snapshot is gone, and resource versions go back: those that were
// there before are used again, for something else.
func (c *ControlPlane) RestoreEtcd(ctx context.Context, snapshot string) error {
	if err := c.StopAPIServer(); err != nil {
		return fmt.Errorf("restoring etcd: %w", err)
	}
	err := c.whileEtcdStops(ctx, func() error {
		if err := os.RemoveAll(c.etcdData()); err != nil {
			return err
		}
		if err := os.Mkdir(c.etcdData(), 0o700); err != nil { // etcd demands it
			return err
		}
		return os.CopyFS(c.etcdData(), os.DirFS(snapshot))
	})
	if err != nil {
		return fmt.Errorf("restoring etcd: %w", err)
	}
	return c.RestartAPIServer(ctx)
}

// whileEtcdStops does something with the data of etcd, and starts it again.
func (c *ControlPlane) whileEtcdStops(ctx context.Context, do func() error) error {
	etcd, err := c.restartEtcd(do)
	if err != nil {
		return err
	}
	if err := c.waitFor(ctx, etcd, c.etcdHealthy); err != nil {
		return err
	}
	go c.watch(etcd)
	return nil
}

func (c *ControlPlane) restartEtcd(meanwhile func() error) (*process.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, errStopped
	}
	if err := c.running[0].Stop(stopGrace); err != nil { // etcd, see stopAll
		return nil, err
	}
	if err := meanwhile(); err != nil {
		return nil, err
	}
	etcd, err := process.Start(c.etcdSpec())
	if err != nil {
		return nil, err
	}
	c.running[0] = etcd
	return etcd, nil
}

func (c *ControlPlane) suspend(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.program(name)
	if err != nil {
		return err
	}
	return p.Suspend()
}

func (c *ControlPlane) resume(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.program(name)
	if err != nil {
		return err
	}
	return p.Signal(syscall.SIGCONT)
}

// apiServer returns the current kube-apiserver; the caller holds mu.
func (c *ControlPlane) apiServer() (*process.Process, error) {
	return c.program(binaries.KubeAPIServer)
}

// program returns the process that runs a program now; the caller holds mu.
func (c *ControlPlane) program(name string) (*process.Process, error) {
	if i := slices.IndexFunc(c.running, func(p *process.Process) bool { return p.Name() == name }); i >= 0 {
		return c.running[i], nil
	}
	return nil, fmt.Errorf("%s is not running", name)
}

func isAPIServer(p *process.Process) bool { return p.Name() == binaries.KubeAPIServer }
