package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/controlplane/process"
)

// Options choose what runs. The zero value is etcd and kube-apiserver with RBAC
// and audit log, in a temporary folder.
type Options struct {
	// Nodes is the number of nodes kwok simulates; 0 runs no kwok.
	Nodes int
	// NodesKeepTaint leaves nodes the taint that they are admitted with, for a manager to
	// take it off. Until then no pod is scheduled.
	NodesKeepTaint bool
	// Scheduler runs kube-scheduler.
	Scheduler bool
	// Stages is a file with kwok's stages to use in place of the standard ones; empty: these.
	Stages string
	// CSI runs a CSI driver, CSIDriver, with the programs that provision, attach and expand its
	// volumes. It is registered on all simulated nodes, which leave attaching to a manager, and
	// has a class, CSIClass, which is the default.
	CSI bool
	// NoServiceAccountAdmission lets pods be created in namespaces without the
	// service account "default", which only a manager creates.
	NoServiceAccountAdmission bool
	// NoAudit switches the audit log off.
	NoAudit bool
	// AuditUsers are audited besides the manager's identities.
	AuditUsers []string
	// AuditBodies are resources whose writes are audited with the objects that were sent
	// and stored.
	AuditBodies []auditv1.GroupResources
	// APIServerArgs are further flags of kube-apiserver; they come last.
	APIServerArgs []string
	// Dir is the folder to use; it must be empty or missing, and Stop leaves it.
	// Default: a temporary folder, which Stop removes unless KCMD_KEEP is set.
	Dir string
	// Log receives progress lines; nil discards them.
	Log io.Writer

	freePort func() (int, error) // replaced in tests; default freePort
}

const (
	readyTimeout = 2 * time.Minute
	// stopGrace is what a program gets to end by itself. Its data is thrown away,
	// so there is no reason to be patient.
	stopGrace    = 5 * time.Second
	portAttempts = 5
)

// ControlPlane is a running control plane. Its methods may be called from
// several goroutines.
type ControlPlane struct {
	options     Options
	binaries    string
	folder      *folder
	dir         string
	credentials credentials
	ports       ports
	admin       *rest.Config
	client      kubernetes.Interface
	audit       *Audit
	proxies     atomic.Uint32 // made so far

	mu       sync.Mutex
	running  []*process.Process // in start order
	stopped  bool
	stopErr  error
	failOnce sync.Once
	failed   chan struct{}
	failure  error // set before failed is closed
}

// Start builds missing binaries, starts the control plane and waits until it is
// ready. The end of ctx aborts the start and has no effect later.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	if o.Nodes < 0 {
		return nil, fmt.Errorf("starting the control plane: %d nodes", o.Nodes)
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.freePort == nil {
		o.freePort = freePort
	}
	bin, err := binaries.Build(ctx, o.Log, o.programs()...)
	if err != nil {
		return nil, err
	}
	f, err := openFolder(o.Dir)
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{options: o, binaries: bin, folder: f, dir: f.path, failed: make(chan struct{})}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the control plane: %w", err), c.Stop())
	}
	return c, nil
}

func (o Options) programs() []string {
	names := []string{binaries.Etcd, binaries.KubeAPIServer}
	if o.Scheduler {
		names = append(names, binaries.KubeScheduler)
	}
	if o.Nodes > 0 {
		names = append(names, binaries.Kwok, binaries.KwokStages)
	}
	if o.CSI {
		names = append(names, binaries.CSI()...)
	}
	return names
}

func (c *ControlPlane) start(ctx context.Context) error {
	begin := time.Now()
	if err := c.writeCertificates(); err != nil {
		return err
	}
	if err := c.writeServiceAccountKey(); err != nil {
		return err
	}
	if err := c.writeAuditPolicy(); err != nil {
		return err
	}
	if err := c.startServers(ctx); err != nil {
		return err
	}
	c.printf("kube-apiserver is ready at %s after %s\n", c.URL(), time.Since(begin).Round(10*time.Millisecond))
	if c.options.Scheduler {
		if err := c.launchConfigured(c.schedulerSpec); err != nil {
			return err
		}
	}
	if c.options.Nodes > 0 {
		if err := c.launchConfigured(c.kwokSpec); err != nil {
			return err
		}
		if err := c.createNodes(ctx); err != nil {
			return err
		}
		c.printf("%d nodes are ready after %s\n", c.options.Nodes, time.Since(begin).Round(10*time.Millisecond))
	}
	if c.options.CSI {
		return c.startCSI(ctx)
	}
	return nil
}

// startServers starts etcd and the API server, on other ports when somebody else
// took one in the meantime.
func (c *ControlPlane) startServers(ctx context.Context) error {
	var err error
	for range portAttempts {
		if err = c.tryServers(ctx); !isBindConflict(err) {
			return err
		}
		c.printf("a port was taken by another process, trying others\n")
		if err := c.discardServers(); err != nil {
			return err
		}
	}
	return err
}

func (c *ControlPlane) tryServers(ctx context.Context) error {
	var err error
	if c.ports, err = c.options.pickPorts(); err != nil {
		return err
	}
	if c.admin, err = c.Config(adminUser, adminGroup); err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.admin); err != nil {
		return fmt.Errorf("creating the administrator's client: %w", err)
	}
	if err := c.writeKubeconfigs(); err != nil {
		return err
	}
	etcd, err := c.launch(c.etcdSpec())
	if err != nil {
		return err
	}
	// The API server needs half a second before it asks for etcd: start it now.
	apiServer, err := c.launch(c.apiServerSpec())
	if err != nil {
		return err
	}
	if err := c.waitFor(ctx, etcd, c.etcdHealthy); err != nil {
		return err
	}
	if err := c.waitFor(ctx, apiServer, c.apiServerReady); err != nil {
		return err
	}
	go c.watch(etcd)
	go c.watch(apiServer)
	c.audit = &Audit{path: c.auditLogFile(), off: c.options.NoAudit}
	return nil
}

// discardServers removes what a failed attempt left.
func (c *ControlPlane) discardServers() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := stopAll(c.running)
	for _, p := range c.running {
		err = errors.Join(err, os.Remove(c.logFile(p.Name())))
	}
	c.running = nil
	return errors.Join(err, os.RemoveAll(c.etcdData()))
}

func (c *ControlPlane) launchConfigured(configure func() (process.Spec, error)) error {
	spec, err := configure()
	if err != nil {
		return err
	}
	p, err := c.launch(spec)
	if err != nil {
		return err
	}
	go c.watch(p)
	return nil
}

var errStopped = errors.New("the control plane is stopped")

// launch starts a program. While it is waited for, its end is the waiter's
// business; later it is that of watch.
func (c *ControlPlane) launch(spec process.Spec) (*process.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, errStopped
	}
	p, err := process.Start(spec)
	if err != nil {
		return nil, err
	}
	c.running = append(c.running, p)
	return p, nil
}

// watch records the unexpected end of a program.
func (c *ControlPlane) watch(p *process.Process) {
	<-p.Exited()
	if err := p.Err(); err != nil {
		c.failOnce.Do(func() {
			c.failure = err
			close(c.failed)
		})
	}
}

// Failed is closed when a program of the control plane ended although nobody
// stopped it; Err then tells which.
func (c *ControlPlane) Failed() <-chan struct{} { return c.failed }

// Err returns why the control plane failed, with the end of the program's log;
// nil while it is healthy and after Stop.
func (c *ControlPlane) Err() error {
	select {
	case <-c.failed:
		return c.failure
	default:
		return nil
	}
}

// Stop ends all processes and removes a temporary folder. It is idempotent.
func (c *ControlPlane) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return c.stopErr
	}
	c.stopped = true
	c.stopErr = errors.Join(stopAll(c.running), c.folder.close())
	return c.stopErr
}

// stopAll ends everything but the first process at the same time, and that one,
// etcd, last: the others end faster while it answers.
func stopAll(running []*process.Process) error {
	if len(running) == 0 {
		return nil
	}
	errs := make([]error, len(running))
	var clients sync.WaitGroup
	for i, p := range running[1:] {
		clients.Go(func() { errs[i+1] = p.Stop(stopGrace) })
	}
	clients.Wait()
	errs[0] = running[0].Stop(stopGrace)
	return errors.Join(errs...)
}

func (c *ControlPlane) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.options.Log, format, args...)
}
