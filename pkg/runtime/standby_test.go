package runtime_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/must"
	"kcmd.dev/test/ports"
)

// shown is a controller with something to show.
type shown struct{ idle }

// DebuggingHandler implements controller.Debuggable.
func (shown) DebuggingHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "shows "+r.URL.Path) })
}

// served is a configuration with an endpoint whose pages everybody may read, and a lease.
func served(t *testing.T, s *leaseServer) *plan.Config {
	t.Helper()
	cfg, files := base(t, s)
	cfg.LeaderElection.LeaderElect = ptr.To(true)
	cfg.Serving.BindAddress, cfg.Serving.Port = "127.0.0.1", ptr.To(ports.FreeFor(t))
	cfg.Serving.TLS.CertFile, cfg.Serving.TLS.PrivateKeyFile = files["certificate"], files["key"]
	cfg.Serving.Authorization.AlwaysAllowPaths = []string{"/*"}
	return cfg
}

// A standby serves what a leader does, and has the checks that it has. Only what a controller shows of itself is there
// while it runs. Pins MGR-31, MGR-35, MGR-36, MGR-37 and MGR-71.
func TestAStandbyServes(t *testing.T) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(client.CloseIdleConnections)
	for name, leads := range map[string]bool{"standby": false, "leader": true} {
		t.Run(name, func(t *testing.T) {
			s := newLeaseServer(t)
			if !leads {
				now := metav1.NowMicro()
				s.leases["kube-system/leases/kube-controller-manager"] = &coordinationv1.Lease{
					TypeMeta:   metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"},
					ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager", ResourceVersion: "0"},
					Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("other"), LeaseDurationSeconds: ptr.To[int32](3600),
						RenewTime: &now, AcquireTime: &now},
				}
			}
			cfg := served(t, s)
			cfg.Metrics.DisabledMetrics = []string{"running_managed_controllers"}
			w := &world{file: filepath.Join(t.TempDir(), "config.yaml"), inForce: cfg}
			w.write(t, cfg)
			all := fakes()
			for n, d := range all {
				if d.Name == jobs {
					all[n] = controller.Describe(controller.Descriptor{Name: d.Name}, func(*plan.Config) opaque { return opaque{} },
						func(controller.Env, opaque) (controller.Controller, error) { return shown{}, nil })
				}
			}
			w.runtime = must.Get(runtime.New(runtime.Options{ConfigFile: w.file, Descriptors: all}))(t)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- w.runtime.Run(ctx) }()
			t.Cleanup(func() { cancel(); must.Succeed(t, <-ended) })

			get := func(path string) (int, string) {
				t.Helper()
				resp, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d%s", *cfg.Serving.Port, path))
				if err != nil {
					return 0, err.Error()
				}
				body := must.Get(io.ReadAll(resp.Body))(t)
				must.Succeed(t, resp.Body.Close())
				return resp.StatusCode, string(body)
			}
			want := supervisor.Standby
			if leads {
				want = supervisor.Running
			}
			w.wait(t, "it is "+string(want), func() error {
				if is := of(w.runtime.Status(), jobs); is.State != want {
					return fmt.Errorf("it is %s: %s", is.State, is.Reason)
				}
				const ofElector = "\nleader_election_master_status" // which has just begun
				if _, body := get("/metrics"); !strings.Contains(body, ofElector) {
					return fmt.Errorf("/metrics lacks %q", ofElector)
				}
				return nil
			})
			for path, content := range map[string][]string{
				"/healthz?verbose":   {"[+]leaderElection ok\n", "[+]lease-claims ok\n", "\n[+]job-controller ok\n", "\n[+]serviceaccount-token-controller ok\n"},
				"/healthz/" + jobs:   {"ok"},
				"/livez":             {"ok"},
				"/metrics":           {`kubernetes_feature_enabled{name="GenericWorkload",stage="ALPHA"} 0`, "\nversion_info{"},
				"/configz":           {`"kubecontrollermanager.config.k8s.io"`},
				"/statusz":           {"kube-controller-manager statusz"},
				"/flagz":             {"kube-controller-manager flagz"},
				"/debug/why?unknown": nil,
			} {
				code, body := get(path)
				for _, part := range content {
					if code != http.StatusOK || !strings.Contains(body, part) {
						t.Errorf("%s is answered with %d and lacks %q:\n%.600s", path, code, part, body)
					}
				}
				if code == http.StatusNotFound || strings.Contains(body, "running_managed_controllers{") {
					t.Errorf("%s is answered with %d:\n%.600s", path, code, body)
				}
			}
			code, body := get("/debug/controllers/" + jobs + "/graph")
			if leads != (code == http.StatusOK && body == "shows /graph") || !leads && code != http.StatusNotFound {
				t.Errorf("the controller shows %d %q", code, body)
			}
			if code, _ := get("/debug/controllers/" + cronJobs + "/"); code != http.StatusNotFound {
				t.Errorf("a controller without anything to show is answered with %d", code)
			}
		})
	}
}

// The port is taken before anything is asked of the API server: a process that cannot serve holds no lease.
// Pins MGR-30.
func TestThePortIsBoundFirst(t *testing.T) {
	s := newLeaseServer(t)
	var asked atomic.Int32
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		s.ServeHTTP(w, r)
	})
	cfg := served(t, s)
	taken := must.Get(net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *cfg.Serving.Port)))(t)
	t.Cleanup(func() { must.Succeed(t, taken.Close()) })
	w := &world{file: filepath.Join(t.TempDir(), "config.yaml"), inForce: cfg}
	w.write(t, cfg)
	w.runtime = must.Get(runtime.New(runtime.Options{ConfigFile: w.file, Descriptors: fakes()}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := w.runtime.Run(ctx)
	var refused *net.OpError
	if !errors.As(err, &refused) || asked.Load() != 0 {
		t.Errorf("it ends with %v after %d requests", err, asked.Load())
	}
}
