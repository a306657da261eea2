package monitoring

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/lastgood"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// start runs a manager in this process and waits until its controllers run.
func start(t *testing.T, o runtime.Options) *manager.Manager {
	t.Helper()
	return startWith(t, o, light)
}

func startWith(t *testing.T, o runtime.Options, edit func(*manager.Config)) *manager.Manager {
	t.Helper()
	m := manager.Join(t, plane, o, edit)
	must.Succeed(t, m.WaitRunning(t.Context()))
	return m
}

// spoil replaces the file of a manager by one that cannot be used.
func spoil(t *testing.T, m *manager.Manager) {
	t.Helper()
	must.Succeed(t, m.Write([]byte("controllers: [\n")))
}

// moreWorkers is an edit of the block of the deployment controller.
func moreWorkers(c *manager.Config) { *c.Controllers.Deployment.ConcurrentSyncs++ }

// The only manager ends, and another one is started.
func down(t *testing.T) scenario {
	m := start(t, runtime.Options{})
	return scenario{
		targets: []string{m.URL()},
		fire:    func(t *testing.T, _ *prometheus) { must.Succeed(t, m.Stop()) },
		resolve: func(t *testing.T, p *prometheus) { p.scrape(t, start(t, runtime.Options{}).URL()) },
	}
}

// The leader cannot renew its lease, which has the name that the alert expects.
func noLeader(t *testing.T) scenario {
	proxy := faultproxy.Start(t, plane)
	cronJobs := func(c *manager.Config) **bool { return &c.Controllers.CronJob.Enabled }
	m := startWith(t, runtime.Options{}, harness.All(elected(cronJobs), harness.Through(t, proxy)))
	var fault *faultproxy.Fault
	return scenario{
		targets: []string{m.URL()},
		fire:    func(*testing.T, *prometheus) { fault = proxy.Refuse(leases, unavailable) },
		resolve: func(*testing.T, *prometheus) { fault.Lift() },
	}
}

// The leader may not list leases, and so does not know whether another process runs the controller that an edit enables
// in place of the one that it runs.
func nothingRuns(t *testing.T) scenario {
	proxy := faultproxy.Start(t, plane)
	namespace := plane.Namespace(t) // of its own, for the lease has the name that the alert expects
	ttl := func(c *manager.Config) **bool { return &c.Controllers.TTL.Enabled }
	m := startWith(t, runtime.Options{}, harness.All(elected(ttl), harness.Through(t, proxy), func(c *manager.Config) {
		c.LeaderElection.ResourceNamespace = namespace
	}))
	var fault *faultproxy.Fault
	return scenario{
		targets: []string{m.URL()},
		fire: func(t *testing.T, _ *prometheus) {
			lists := leases
			lists.Verbs = []string{"list"}
			fault = proxy.Refuse(lists, unavailable)
			harness.Edit(t, m, func(c *manager.Config) {
				c.Controllers.TTL.Enabled, c.Controllers.TTLAfterFinished.Enabled = ptr.To(false), ptr.To(true)
			})
		},
		resolve: func(*testing.T, *prometheus) { fault.Lift() },
	}
}

var (
	leases      = faultproxy.Requests{Resource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}}
	unavailable = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "etcd is not there"}
)

// The file becomes invalid, and an edit makes it valid again.
func rejected(t *testing.T) scenario {
	m := start(t, runtime.Options{})
	return scenario{
		targets: []string{m.URL()},
		fire:    func(t *testing.T, _ *prometheus) { spoil(t, m) },
		resolve: func(t *testing.T, _ *prometheus) { harness.Edit(t, m, moreWorkers) },
	}
}

// A process ends, its file becomes invalid, and another one is started with it.
func lastGood(t *testing.T) scenario {
	file, dir := filepath.Join(t.TempDir(), "config.yaml"), t.TempDir()
	var good *manager.Config
	begin := func(t *testing.T) *manager.Process {
		t.Helper()
		p := manager.JoinProcess(t, plane, func(c *manager.Config) {
			if good == nil {
				light(c)
				good = c.DeepCopy()
				must.Succeed(t, os.WriteFile(file, must.Get(config.Marshal(good))(t), 0o600))
			}
			*c = *good.DeepCopy() // it serves where the first one did
		}, "--config="+file, "--last-good="+dir)
		must.Succeed(t, p.WaitRunning(t.Context()))
		return p
	}
	first := begin(t)
	store := must.Get(lastgood.Open(dir, file))(t)
	await.That(t, "the configuration is kept", func(context.Context) error {
		_, err := store.Read()
		return err
	})
	return scenario{
		targets: []string{first.URL()},
		fire: func(t *testing.T, _ *prometheus) {
			must.Succeed(t, first.Stop())
			must.Succeed(t, os.WriteFile(file, []byte("controllers: [\n"), 0o600))
			begin(t)
		},
		resolve: func(t *testing.T, _ *prometheus) {
			must.Succeed(t, os.WriteFile(file, must.Get(config.Marshal(good))(t), 0o600))
		},
	}
}

// The directory in which the configuration is kept disappears. Each edit is a reason to keep it.
func notKept(t *testing.T) scenario {
	dir := t.TempDir()
	m := start(t, runtime.Options{LastGood: dir})
	return scenario{
		targets: []string{m.URL()},
		fire: func(t *testing.T, _ *prometheus) {
			must.Succeed(t, os.RemoveAll(dir))
			harness.Edit(t, m, moreWorkers)
		},
		resolve: func(t *testing.T, _ *prometheus) {
			must.Succeed(t, os.Mkdir(dir, 0o700))
			harness.Edit(t, m, moreWorkers)
		},
	}
}

// A replica with another configuration joins, and leaves. On one machine replicas always differ,
// since each needs a port of its own.
func differ(t *testing.T) scenario {
	m := start(t, runtime.Options{})
	var other *manager.Manager
	return scenario{
		targets: []string{m.URL()},
		fire: func(t *testing.T, p *prometheus) {
			other = manager.Join(t, plane, runtime.Options{}, light)
			p.scrape(t, m.URL(), other.URL())
		},
		resolve: func(t *testing.T, _ *prometheus) { must.Succeed(t, other.Stop()) },
	}
}

// A controller fails each time it runs, until it is repaired. An edit of its block does not wait.
func fails(t *testing.T) scenario {
	f := newFake()
	m := start(t, runtime.Options{Descriptors: f.descriptors(), Supervision: supervisor.Options{BackoffMin: time.Hour, BackoffMax: time.Hour}})
	return scenario{
		targets: []string{m.URL()},
		fire: func(t *testing.T, _ *prometheus) {
			f.broken.Store(true)
			harness.Edit(t, m, moreWorkers)
		},
		resolve: func(t *testing.T, _ *prometheus) {
			f.broken.Store(false)
			harness.Edit(t, m, moreWorkers)
		},
	}
}

// A controller panics again and again, until it is repaired.
func crashes(t *testing.T) scenario {
	f := newFake()
	m := start(t, runtime.Options{Descriptors: f.descriptors(), Supervision: supervisor.Options{BackoffMin: 100 * time.Millisecond, BackoffMax: 100 * time.Millisecond}})
	return scenario{
		targets: []string{m.URL()},
		fire: func(t *testing.T, _ *prometheus) {
			f.broken.Store(true)
			harness.Edit(t, m, moreWorkers)
		},
		resolve: func(*testing.T, *prometheus) { f.broken.Store(false) },
	}
}

// A worker does not finish, and more than five minutes pass by the clock of the manager.
func stuck(t *testing.T) scenario {
	f, clk := newFake(), &jumpingClock{}
	m := start(t, runtime.Options{Descriptors: f.descriptors(), Clock: clk})
	return scenario{
		targets: []string{m.URL()},
		fire: func(t *testing.T, _ *prometheus) {
			f.add(1)
			inFlight(t, m)
			clk.jump(5*time.Minute + time.Second)
		},
		resolve: func(*testing.T, *prometheus) { close(f.release) },
	}
}

// inFlight waits until the fake works on a key.
func inFlight(t *testing.T, m *manager.Manager) {
	t.Helper()
	harness.Wait(t, m, "a key is worked on", func(s *runtime.Status) error {
		for _, l := range harness.ControllerOf(s, deployment).Loops {
			if len(l.InFlight) > 0 {
				return nil
			}
		}
		return errors.New("none is")
	})
}

// More keys are added than a worker that does not finish can process.
func grows(t *testing.T) scenario {
	f := newFake()
	m := start(t, runtime.Options{Descriptors: f.descriptors()})
	return scenario{
		targets: []string{m.URL()},
		fire:    func(*testing.T, *prometheus) { f.add(1100) },
		resolve: func(*testing.T, *prometheus) { close(f.release) },
	}
}

// A namespace has been paused for more than four hours, by a clock that is as much behind.
func paused(t *testing.T) scenario {
	m := start(t, runtime.Options{Clock: harness.ShiftedClock(-4*time.Hour - time.Minute)})
	return scenario{
		targets: []string{m.URL()},
		fire: func(t *testing.T, _ *prometheus) {
			harness.Edit(t, m, func(c *manager.Config) { c.PausedNamespaces = []string{"nothing-is-in-it"} })
		},
		resolve: func(t *testing.T, _ *prometheus) {
			harness.Edit(t, m, func(c *manager.Config) { c.PausedNamespaces = nil })
		},
	}
}

// The kubeconfig becomes invalid, and is as it was again.
func credentials(t *testing.T) scenario {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	good := must.Get(os.ReadFile(plane.ManagerKubeconfig()))(t)
	must.Succeed(t, os.WriteFile(file, good, 0o600))
	m := startWith(t, runtime.Options{}, harness.All(light, func(c *manager.Config) { c.ClientConnection.Kubeconfig = file }))
	return scenario{
		targets: []string{m.URL()},
		fire: func(t *testing.T, _ *prometheus) {
			must.Succeed(t, os.WriteFile(file, []byte("not a kubeconfig\n"), 0o600))
		},
		resolve: func(t *testing.T, _ *prometheus) { must.Succeed(t, os.WriteFile(file, good, 0o600)) },
	}
}

// The API server answers requests for leases with an internal error. It is a process of its own,
// since managers in this one count requests together.
func requestsFail(t *testing.T) scenario {
	proxy := faultproxy.Start(t, plane)
	jobs := func(c *manager.Config) **bool { return &c.Controllers.Job.Enabled }
	// It renews its lease all the time, so that the share is known soon, and goes on leading.
	lease := harness.Lease(3*time.Minute, 2*time.Minute, 100*time.Millisecond)
	m := manager.StartProcess(t, plane, harness.All(elected(jobs), harness.OwnLease(t), harness.Through(t, proxy), lease))
	var fault *faultproxy.Fault
	return scenario{
		targets: []string{m.URL()},
		fire:    func(*testing.T, *prometheus) { fault = proxy.Refuse(leases, unavailable) },
		resolve: func(*testing.T, *prometheus) { fault.Lift() },
	}
}

// A client without credentials sends as many requests as it can.
func flooded(t *testing.T) scenario {
	m := start(t, runtime.Options{})
	ctx, end := context.WithCancel(t.Context())
	var floods sync.WaitGroup
	t.Cleanup(floods.Wait)
	t.Cleanup(end)
	client := &http.Client{Transport: stranger()}
	t.Cleanup(client.CloseIdleConnections)
	return scenario{
		targets: []string{m.URL()},
		fire: func(t *testing.T, _ *prometheus) {
			floods.Go(func() {
				for ctx.Err() == nil {
					request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.URL()+"/metrics", nil)
					if err != nil {
						t.Error(err)
						return
					}
					if response, err := client.Do(request); err == nil {
						_ = response.Body.Close()
					}
				}
			})
		},
		resolve: func(*testing.T, *prometheus) { end() },
	}
}

// stranger is a transport without credentials, from another address than that of Prometheus.
func stranger() *http.Transport {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 77)}}
	return &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
}
