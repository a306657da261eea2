package manager

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/controlplane/process"
)

var (
	plane  *controlplane.ControlPlane
	shared *Manager
)

func TestMain(m *testing.M) {
	os.Exit(RunTests(m, controlplane.Options{}, runtime.Options{}, leaveDeployments, func(cp *controlplane.ControlPlane, m *Manager) { plane, shared = cp, m }))
}

// leaveDeployments keeps the first manager out of the way of the others: a controller runs
// in one of them only.
func leaveDeployments(c *Config) { c.Controllers.Deployment.Enabled = ptr.To(false) }

// ownLease keeps a second manager out of the way of the first one.
func ownLease(name string) func(*Config) {
	return func(c *Config) {
		c.LeaderElection.ResourceName = name
		// The one that is killed keeps the controller from the next one until its lease expires.
		c.LeaderElection.LeaseDuration = &metav1.Duration{Duration: 2 * time.Second}
		c.LeaderElection.RenewDeadline = &metav1.Duration{Duration: 1500 * time.Millisecond}
		c.LeaderElection.RetryPeriod = &metav1.Duration{Duration: 200 * time.Millisecond}
		c.ControllerDefaults.Enabled = ptr.To(false)
		c.Controllers.Deployment.Enabled = ptr.To(true)
	}
}

func TestSharedManagerWorks(t *testing.T) {
	namespace := plane.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	watch, err := plane.AdminClient().CoreV1().ServiceAccounts(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=default"})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if _, ok := <-watch.ResultChan(); !ok {
		t.Error("the manager does not create the default service account")
	}
}

func TestEditIsInForceOrRejected(t *testing.T) {
	m := Start(t, plane, ownLease("edited"))
	before, err := m.Controller(t.Context(), "deployment-controller")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Edit(t.Context(), func(c *Config) { c.Controllers.Deployment.ConcurrentSyncs = ptr.To[int32](7) }); err != nil {
		t.Fatal(err)
	}
	err = m.Wait(t.Context(), "the second instance runs", func(s *runtime.Status) error {
		for _, c := range s.Controllers {
			if c.Name == before.Name && c.State == supervisor.Running && c.Generation == before.Generation+1 {
				return nil
			}
		}
		return errors.New("not yet")
	})
	if err != nil {
		t.Error(err)
	}
	err = m.Edit(t.Context(), func(c *Config) { c.Controllers.Deployment.ConcurrentSyncs = ptr.To[int32](-7) })
	if err == nil || !strings.Contains(err.Error(), "concurrentSyncs") {
		t.Errorf("a negative number of workers: got %v", err)
	}
	if err := m.Edit(t.Context(), func(c *Config) { c.Controllers.Deployment.ConcurrentSyncs = ptr.To[int32](8) }); err != nil {
		t.Error(err)
	}
}

func TestProcessIsStartedReadAndKilled(t *testing.T) {
	p := StartProcess(t, plane, ownLease("killed"))
	metrics, err := p.Get(t.Context(), "/metrics")
	if err != nil || !strings.Contains(string(metrics), "kubernetes_build_info") {
		t.Errorf("got %v and %d bytes of metrics", err, len(metrics))
	}
	if err := p.Edit(t.Context(), func(c *Config) { c.Logging.Verbosity = 3 }); err != nil {
		t.Error(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *process.ExitError
	if err := p.WaitExit(t.Context()); !errors.As(err, &exit) || !strings.Contains(exit.LogTail, "Configuration reloaded") {
		t.Errorf("got %v, want the exit with the log", err)
	}
}

func TestProcessEndsInGoodOrder(t *testing.T) {
	p := StartProcess(t, plane, ownLease("terminated"))
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.WaitExit(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFailedStartShowsTheReason(t *testing.T) {
	broken := func(c *Config) { c.ClientConnection.Kubeconfig = "/nowhere" }
	if _, err := Launch(t.Context(), plane, broken); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("in this process: got %v", err)
	}
	if _, err := LaunchProcess(t.Context(), plane, broken); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("as a process: got %v", err)
	}
}

func TestForbiddenRequestsAreFound(t *testing.T) {
	// Not the shared control plane: its run would fail.
	other, err := controlplane.Start(t.Context(), controlplane.Options{AuditUsers: []string{"jane"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.Stop(); err != nil {
			t.Error(err)
		}
	}()
	config, err := other.Config("jane")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Fatal("jane may list secrets")
	}
	refused, err := Forbidden(other, 0)
	if err != nil || len(refused) != 1 || !strings.Contains(refused[0], "jane list /api/v1/namespaces/default/secrets") {
		t.Errorf("got %q, %v", refused, err)
	}
}
