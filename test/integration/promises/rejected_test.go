package promises

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/ports"
)

// refusing builds a controller that waits with a configuration of two workers until it is
// let go, and refuses it then: an edit is held where everything before the controllers is
// prepared.
type refusing struct {
	entered chan struct{}
	leave   chan struct{}
}

func (r *refusing) build(_ controller.Env, v fakeValue) (controller.Controller, error) {
	if v.workers != 2 {
		return runFunc(idle), nil
	}
	r.entered <- struct{}{}
	<-r.leave
	return nil, errFake
}

// answersHealth reports whether somebody serves on a port of the loopback address.
func answersHealth(ctx context.Context, port int32) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	c, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	return c.Close()
}

// Nothing of an edit that is rejected in the end is in force for a while: not the endpoint,
// not what it shows, not the log.
func TestARejectedEditIsNeverInForce(t *testing.T) {
	allow(t)
	fake := &refusing{entered: make(chan struct{}), leave: make(chan struct{})}
	m := begin(t, runtime.Options{Descriptors: withFake(fake.build)}, func(c *manager.Config) {
		harness.Settle(10 * time.Millisecond)(c)
		workers(1)(c)
	})
	waitRunning(t, m)
	port := *m.Config().Serving.Port

	stop, knocking := make(chan struct{}), make(chan error, 1)
	go func() { knocking <- knock(m, stop) }()
	for name, edit := range map[string]func(*manager.Config){
		"another port":     func(c *manager.Config) { c.Serving.Port = ptr.To(ports.FreeFor(t)) },
		"another address":  func(c *manager.Config) { c.Serving.BindAddress = "0.0.0.0" },
		"no endpoint":      func(c *manager.Config) { c.Serving.Port = ptr.To[int32](0) },
		"other TLS":        func(c *manager.Config) { c.Serving.TLS.MinVersion = "VersionTLS13" },
		"no profiling":     func(c *manager.Config) { c.Serving.Profiling = ptr.To(false) },
		"hidden metrics":   func(c *manager.Config) { c.Metrics.DisabledMetrics = []string{"kcmd_config_rejected"} },
		"another lease":    func(c *manager.Config) { c.LeaderElection.ResourceName += "-other" },
		"another log":      func(c *manager.Config) { c.Logging.Verbosity = 7 },
		"other controller": func(c *manager.Config) { c.Controllers.CronJob.Enabled = ptr.To(false) },
	} {
		t.Run(name, func(t *testing.T) {
			good, before, counted, page := m.Config(), harness.Status(t, m), series(t, m), configz(t, m)
			edited := make(chan error, 1)
			go func() { edited <- m.Edit(t.Context(), harness.All(edit, workers(2))) }()
			<-fake.entered
			// While it is prepared.
			untouched(t, m, before, counted, page)
			if proposed := *m.Config().Serving.Port; proposed != port && proposed != 0 && answersHealth(t.Context(), proposed) == nil {
				t.Errorf("port %d of the edit is served", proposed)
			}
			if m.Config().Serving.TLS.MinVersion == "VersionTLS13" {
				wantVersion(t, port, tls.VersionTLS12)
			}
			fake.leave <- struct{}{}
			if err := <-edited; err == nil || !strings.Contains(err.Error(), errFake.Error()) {
				t.Errorf("the edit gives %v", err)
			}
			// After it was rejected.
			untouched(t, m, before, nil, page)
			back := func(c *manager.Config) {
				*c = *good.DeepCopy()
				c.Reload.PollInterval.Duration += time.Second // what was in force before would be no reload
			}
			if err := m.Edit(t.Context(), back); err != nil {
				t.Error(err)
			}
			if err := notRejected(new(harness.Status(t, m))); err != nil {
				t.Error(err)
			}
		})
	}
	close(stop)
	if err := <-knocking; err != nil {
		t.Errorf("the endpoint was away: %v", err)
	}
}

// knock reads the endpoint over new connections until it is told to stop, and returns what
// failed.
func knock(m *manager.Manager, stop <-chan struct{}) error {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		response, err := client.Get(m.URL() + "/livez")
		if err != nil {
			return err
		}
		if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
			return errors.Join(err, errors.New(response.Status))
		}
	}
}

// untouched fails unless what a manager serves, and what runs in it, is as before. Metrics
// are only compared while no failure has been counted.
func untouched(t *testing.T, m *manager.Manager, before runtime.Status, counted map[string]float64, page string) {
	t.Helper()
	s := harness.Status(t, m)
	harness.SameInstances(t, harness.Instances(before), harness.Instances(s))
	if s.Configuration.Generation != before.Configuration.Generation || s.Configuration.Hash != before.Configuration.Hash {
		t.Errorf("in force is %+v", s.Configuration)
	}
	if len(s.Leadership.Leases) != len(before.Leadership.Leases) || s.Leadership.Term != before.Leadership.Term {
		t.Errorf("the leadership is %+v", s.Leadership)
	}
	if now := configz(t, m); now != page {
		t.Errorf("/configz shows\n%s\nbefore\n%s", now, page)
	}
	if counted == nil {
		return
	}
	now := series(t, m)
	for _, name := range []string{"kcmd_config_rejected{}", `leader_election_master_status{name="` + leaseOfConfig(m) + `"}`} {
		if is, shown := now[name]; !shown || is != counted[name] {
			t.Errorf("%s is %v (shown: %t), before %v", name, is, shown, counted[name])
		}
	}
	wantCode(t, m, "/debug/pprof/", http.StatusOK)
}

// leaseOfConfig is the lease that a manager began with.
func leaseOfConfig(m *manager.Manager) string {
	return strings.TrimSuffix(m.Config().LeaderElection.ResourceName, "-other")
}

func configz(t *testing.T, m *manager.Manager) string {
	t.Helper()
	var page []byte
	await.That(t, "the configuration can be read", func(context.Context) (err error) {
		page, err = m.Get(t.Context(), "/configz")
		return err
	})
	return string(page)
}

func wantVersion(t *testing.T, port int32, version uint16) {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MaxVersion: version}}
	c, err := dialer.DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Errorf("%s is refused: %v", tls.VersionName(version), err)
		return
	}
	_ = c.Close()
}

// A file that turns bad after it came into force is the affair of those who read it: it
// blocks no edit that has nothing to do with it.
func TestAFileThatHasTurnedBadBlocksNoOtherEdit(t *testing.T) {
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	fill(t, file)
	m := start(t, func(c *manager.Config) {
		harness.Settle(10 * time.Millisecond)(c)
		c.ClientConnection.Kubeconfig = file("kubeconfig")
		c.ServiceAccounts.RootCAFile = file("ca.crt")
		c.ServiceAccounts.PrivateKeyFile = file("sa.key")
		c.Metrics.AllowListMappingManifest = file("labels.yaml")
		c.Serving.TLS.CertFile, c.Serving.TLS.PrivateKeyFile = file("tls.crt"), file("tls.key")
	})
	for _, name := range []string{"ca.crt", "sa.key", "labels.yaml", "tls.crt", "kubeconfig"} {
		t.Run(name, func(t *testing.T) {
			for n, spoil := range []func(){
				func() { put(t, file(name), []byte("nonsense")) },
				func() {
					if err := os.Remove(file(name)); err != nil {
						t.Fatal(err)
					}
				},
			} {
				spoil()
				before := harness.Status(t, m)
				harness.Edit(t, m, func(c *manager.Config) {
					c.Controllers.Deployment.ConcurrentSyncs = ptr.To(*c.Controllers.Deployment.ConcurrentSyncs + 1)
				})
				waitRunning(t, m)
				harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, m)), deployment)
				if log := logOf(t, m); strings.Count(log, "its previous content stays in use") <= n {
					t.Error("the log has no warning")
				}
			}
			// A bad file that an edit names again rejects it, also in another field than before.
			err := m.Edit(t.Context(), func(c *manager.Config) { c.Serving.Authentication.ClientCAFile = file("bad.crt") })
			if err == nil || !strings.Contains(err.Error(), "serving.authentication.clientCAFile") {
				t.Errorf("an edit that names a bad file gives %v", err)
			}
			harness.Edit(t, m, func(c *manager.Config) {
				c.Serving.Authentication.ClientCAFile = ""
				c.Reload.PollInterval.Duration += time.Second // what was in force before would be no reload
			})
			fill(t, file)
		})
	}

	// An edit that has the bad file read again says so.
	put(t, file("ca.crt"), []byte("nonsense"))
	before := harness.Status(t, m)
	err := m.Edit(t.Context(), func(c *manager.Config) { c.Controllers.ServiceAccountToken.ConcurrentSyncs = ptr.To[int32](7) })
	if err == nil || !strings.Contains(err.Error(), tokens) || !strings.Contains(err.Error(), file("ca.crt")) {
		t.Errorf("the edit gives %v", err)
	}
	harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, m)))
	fill(t, file)
	harness.Wait(t, m, "the edit is in force with the file", func(s *runtime.Status) error {
		if harness.ControllerOf(s, tokens).Generation != harness.ControllerOf(&before, tokens).Generation+1 {
			return fmt.Errorf("instance %d runs", harness.ControllerOf(s, tokens).Generation)
		}
		return notRejected(s)
	})
}

// fill writes good files.
func fill(t *testing.T, file func(string) string) {
	t.Helper()
	for name, from := range map[string]string{
		"kubeconfig": plane.ManagerKubeconfig(), "ca.crt": plane.RootCAFile(), "sa.key": plane.ServiceAccountKeyFile(),
	} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		put(t, file(name), content)
	}
	if _, err := os.Stat(file("keep.crt")); err != nil {
		certificate, key, err := certutil.GenerateSelfSignedCertKey("manager", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		put(t, file("keep.crt"), certificate)
		put(t, file("tls.key"), key)
	}
	certificate, err := os.ReadFile(file("keep.crt"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, file("tls.crt"), certificate)
	put(t, file("labels.yaml"), []byte("\"apiserver_request_total,verb\": GET\n"))
	put(t, file("bad.crt"), []byte("nonsense"))
}

func logOf(t *testing.T, m *manager.Manager) string {
	t.Helper()
	log, err := os.ReadFile(m.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	return string(log)
}
