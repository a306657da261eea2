package runtime_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/must"
)

// snapshot is what a leaseServer has stored.
type snapshot struct {
	leases  map[string]*coordinationv1.Lease
	version int
}

func (s *leaseServer) snapshot() snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := snapshot{leases: map[string]*coordinationv1.Lease{}, version: s.version}
	for key, l := range s.leases {
		all.leases[key] = l.DeepCopy()
	}
	return all
}

// restore puts a snapshot back, and ends all watches, as a restart of API servers does.
func (s *leaseServer) restore(from snapshot) {
	s.mu.Lock()
	s.leases, s.version = from.leases, from.version
	s.mu.Unlock()
	s.CloseClientConnections()
}

// restorable is a process whose leases are short, and that serves its metrics.
func restorable(t *testing.T, s *leaseServer) *plan.Config {
	t.Helper()
	cfg := served(t, s)
	cfg.LeaderElection.LeaseDuration = &metav1.Duration{Duration: 2 * time.Second}
	cfg.LeaderElection.RenewDeadline = &metav1.Duration{Duration: 1500 * time.Millisecond}
	return cfg
}

// goOn waits until leases are written.
func (w *world) goOn(t *testing.T, s *leaseServer) {
	t.Helper()
	version := s.snapshot().version
	w.wait(t, "the lease is renewed", func() error {
		if s.snapshot().version < version+3 {
			return errors.New("it is not")
		}
		return nil
	})
}

// startsOver waits until a process that does what its configuration says has another connection.
func (w *world) startsOver(t *testing.T, cfg *plan.Config) runtime.Status {
	t.Helper()
	var after runtime.Status
	w.wait(t, "it starts over", func() error {
		after = w.runtime.Status()
		if after.Connection.Generation != 2 {
			return fmt.Errorf("the connection is %d", after.Connection.Generation)
		}
		return goalOf(t, cfg).reached(after)
	})
	return after
}

// Everything that was read and remembered is replaced, also if the process could not start with its files any more.
// Pins MGR-206.
func TestAProcessStartsOverAfterARestoreOfEtcd(t *testing.T) {
	for name, broken := range map[string]func(*plan.Config) string{
		"it leads":               nil,
		"its kubeconfig is gone": func(c *plan.Config) string { return c.ClientConnection.Kubeconfig },
		"its endpoint cannot be prepared": func(c *plan.Config) string {
			return c.Serving.TLS.PrivateKeyFile
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newLeaseServer(t)
			cfg := restorable(t, s)
			w := begin(t, cfg)
			before, earlier := w.runtime.Status(), s.snapshot()
			w.goOn(t, s)
			if broken != nil {
				must.Succeed(t, os.Remove(broken(cfg)))
			}
			s.restore(earlier)
			after := w.startsOver(t, cfg)
			for _, c := range after.Controllers {
				if was := of(before, c.Name); c.State == supervisor.Running && c.Generation <= was.Generation {
					t.Errorf("%s: instance %d, before %d", c.Name, c.Generation, was.Generation)
				}
			}
			w.wait(t, "it is reported", func() error {
				got := s.eventsOf("EtcdRestored")
				if len(got) != 1 || !strings.HasPrefix(got[0], "Warning Resource versions have gone back") {
					return fmt.Errorf("events are %q", got)
				}
				return nil
			})
			if broken == nil {
				if body := metricsOf(t, cfg); !strings.Contains(body, "\nkcmd_etcd_restores_total 1\n") {
					t.Errorf("the metrics lack the restore:\n%.600s", body)
				}
			}
		})
	}
}

func metricsOf(t *testing.T, cfg *plan.Config) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(client.CloseIdleConnections)
	resp := must.Get(client.Get(fmt.Sprintf("https://127.0.0.1:%d/metrics", *cfg.Serving.Port)))(t)
	defer resp.Body.Close()
	return string(must.Get(io.ReadAll(resp.Body))(t))
}

// What cannot be built is no reason to go on with what is lost. It is tried again. Pins MGR-206.
func TestAControllerThatCannotBeBuiltAfterARestoreOfEtcd(t *testing.T) {
	var fails atomic.Bool
	all := fakes()
	for n, d := range all {
		if d.Name == jobs {
			bare := controller.Descriptor{Name: d.Name, Gate: d.Gate}
			all[n] = controller.Describe(bare, func(c *plan.Config) opaque { return opaque{d.Value(c)} },
				func(controller.Env, opaque) (controller.Controller, error) {
					if fails.Load() {
						return nil, errors.New("not now")
					}
					return idle{}, nil
				})
		}
	}
	s := newLeaseServer(t)
	cfg := restorable(t, s)
	w := beginWith(t, cfg, all)
	earlier := s.snapshot()
	w.goOn(t, s)
	fails.Store(true)
	s.restore(earlier)
	w.wait(t, "all but one run", func() error {
		status := w.runtime.Status()
		if is := of(status, cronJobs); status.Connection.Generation != 2 || is.State != supervisor.Running {
			return fmt.Errorf("connection %d, %s is %s", status.Connection.Generation, cronJobs, is.State)
		}
		if is := of(status, jobs); is.State == supervisor.Running {
			return fmt.Errorf("%s runs", jobs)
		}
		return nil
	})
	fails.Store(false)
	w.startsOver(t, cfg)
}

// A standby may lead next, so it starts over, too.
func TestAStandbyStartsOverAfterARestoreOfEtcd(t *testing.T) {
	for name, row := range map[string]struct {
		version, taken string
		newest         int
	}{
		"MGR-206: the lease has an earlier version":                               {"7", "", 20},
		"MGR-225: it was taken at an earlier version, and has a later one by now": {"60", "7", 70},
	} {
		t.Run(name, func(t *testing.T) { standbyStartsOver(t, row.version, row.taken, row.newest) })
	}
}

// standbyStartsOver has another process hold the lease, which suddenly has another version, and was taken at others.
func standbyStartsOver(t *testing.T, version, taken string, newest int) {
	t.Helper()
	s := newLeaseServer(t)
	now := metav1.NowMicro()
	stored := func(version, taken string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			TypeMeta: metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "kube-system", Name: "kube-controller-manager", ResourceVersion: version,
				Annotations: map[string]string{election.TakenAnnotation: taken},
			},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("other"), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: &now, AcquireTime: &now,
			},
		}
	}
	const key = "kube-system/leases/kube-controller-manager"
	s.leases[key], s.version = stored("40", ""), 50
	cfg := restorable(t, s)
	w := &world{file: filepath.Join(t.TempDir(), "config.yaml"), inForce: cfg}
	w.write(t, cfg)
	w.runtime = must.Get(runtime.New(runtime.Options{ConfigFile: w.file, Descriptors: fakes()}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.runtime.Run(ctx) }()
	t.Cleanup(func() { cancel(); must.Succeed(t, <-ended) })
	standsBy := func(connection uint64) func() error {
		return func() error {
			status := w.runtime.Status()
			if is := of(status, jobs); status.Connection.Generation != connection || is.State != supervisor.Standby {
				return fmt.Errorf("connection %d, %s is %s", status.Connection.Generation, jobs, is.State)
			}
			if l := status.Leadership.Lease; l == nil || l.Holder != "other" || !l.Watching && connection == 1 {
				return fmt.Errorf("the lease is %+v", l)
			}
			return nil
		}
	}
	w.wait(t, "it stands by", standsBy(1))
	s.restore(snapshot{leases: map[string]*coordinationv1.Lease{key: stored(version, taken)}, version: newest})
	w.wait(t, "it starts over", standsBy(2))
}
