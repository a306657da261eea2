// Package promises tests what the runtime promises, against a real API server: bad files
// are harmless, every way of editing a file is seen, what can change in place does, and
// controllers are stopped, replaced and isolated without the others noticing.
//
//  1. All tests share one control plane. Each runs a manager of its own, with a lease
//     named after the test, so that none depends on another.
//  2. "Nothing restarted" means: every controller that ran still has the instance it
//     had, told by its generation and its start time.
//  3. Nothing waits for time to pass. What happens later is polled for with a deadline.
package promises

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // the series a real process has
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/manager"
)

const (
	deployment = "deployment-controller"
	replicaSet = "replicaset-controller"
	rootCA     = "root-ca-certificate-publisher-controller"
	tokens     = "serviceaccount-token-controller"

	// patience bounds every wait of these tests. It is long because the machine may be
	// busy; nothing takes it when all is well.
	patience = 20 * time.Second
	// pollEvery is how often a condition is looked at.
	pollEvery = 5 * time.Millisecond
)

var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	os.Exit(controlplane.RunTests(m, controlplane.Options{}, func(cp *controlplane.ControlPlane) { plane = cp }))
}

// leaseOf is the name of the lease of a test's manager.
func leaseOf(t testing.TB) string {
	return strings.Trim(strings.ToLower(strings.NewReplacer("/", "-", "_", "-", " ", "-", "#", "-").Replace(t.Name())), "-")
}

// ownLease keeps the managers of different tests apart.
func ownLease(t testing.TB, edit func(*manager.Config)) func(*manager.Config) {
	return func(c *manager.Config) {
		c.LeaderElection.ResourceName = leaseOf(t)
		if edit != nil {
			edit(c)
		}
	}
}

// start runs a manager in this process until the end of the test.
func start(t testing.TB, edit func(*manager.Config)) *manager.Manager {
	t.Helper()
	return manager.Start(t, plane, ownLease(t, edit))
}

// begin runs a manager with options of the test's and does not wait for its controllers.
func begin(t testing.TB, o runtime.Options, edit func(*manager.Config)) *manager.Manager {
	t.Helper()
	m, err := manager.Begin(t.Context(), plane, o, ownLease(t, edit))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// settle makes a manager read its file as soon as it has been quiet for d.
func settle(c *manager.Config, d time.Duration) {
	c.Reload.SettleTime = &metav1.Duration{Duration: d}
}

// subject is a manager in this process or in one of its own.
type subject interface {
	Status(context.Context) (runtime.Status, error)
	Edit(context.Context, func(*manager.Config)) error
	Wait(context.Context, string, func(*runtime.Status) error) error
	WaitRunning(context.Context) error
	Get(context.Context, string) ([]byte, error)
	ConfigFile() string
}

func status(t testing.TB, m subject) runtime.Status {
	t.Helper()
	s, err := m.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func edit(t testing.TB, m subject, change func(*manager.Config)) {
	t.Helper()
	if err := m.Edit(t.Context(), change); err != nil {
		t.Fatal(err)
	}
}

func wait(t testing.TB, m subject, what string, check func(*runtime.Status) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := m.Wait(ctx, what, check); err != nil {
		t.Fatal(err)
	}
}

func waitRunning(t testing.TB, m subject) {
	t.Helper()
	if err := m.WaitRunning(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until check returns nil.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	if err := within(t.Context(), patience, check); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func within(ctx context.Context, limit time.Duration, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// of returns the status of one controller.
func of(s *runtime.Status, name string) supervisor.Status {
	for _, c := range s.Controllers {
		if c.Name == name {
			return c
		}
	}
	return supervisor.Status{Name: name}
}

// instance tells one instance of a controller from another.
type instance struct {
	generation uint64
	started    time.Time
}

// instances are the running instances by controller.
func instances(s runtime.Status) map[string]instance {
	all := map[string]instance{}
	for _, c := range s.Controllers {
		if c.State == supervisor.Running {
			all[c.Name] = instance{c.Generation, c.Started.Round(0)}
		}
	}
	return all
}

// sameInstances fails unless exactly the controllers that ran before run now, in the same
// instances, but for those in except, of which exactly one newer instance must have run.
func sameInstances(t testing.TB, before, after map[string]instance, except ...string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		was, is := before[name], after[name]
		switch {
		case is == (instance{}):
			t.Errorf("%s does not run any more", name)
		case slices.Contains(except, name):
			if is.generation != was.generation+1 {
				t.Errorf("%s went from instance %d to %d, want exactly one restart", name, was.generation, is.generation)
			}
		case is.generation != was.generation || !is.started.Equal(was.started):
			t.Errorf("%s was restarted: instance %d of %v, before %d of %v", name, is.generation, is.started, was.generation, was.started)
		}
	}
	for name := range after {
		if _, ran := before[name]; !ran {
			t.Errorf("%s runs, it did not before", name)
		}
	}
}

// newest is the last reload, the zero one if there was none.
func newest(s *runtime.Status) runtime.Reload {
	if len(s.Reloads) == 0 {
		return runtime.Reload{}
	}
	return s.Reloads[len(s.Reloads)-1]
}

// series reads /metrics and returns the value of every series by name and labels. A
// histogram counts as one series, with the number of its observations.
func series(t testing.TB, m subject) map[string]float64 {
	t.Helper()
	var page []byte
	// The endpoint learns from the API server whom to trust, which takes a moment.
	eventually(t, "metrics can be read", func() (err error) {
		page, err = m.Get(t.Context(), "/metrics")
		return err
	})
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for name, family := range families {
		for _, one := range family.Metric {
			var labels []string
			for _, l := range one.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			slices.Sort(labels)
			all[name+"{"+strings.Join(labels, ",")+"}"] = valueOf(one)
		}
	}
	return all
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	case m.Summary != nil:
		return float64(m.Summary.GetSampleCount())
	}
	return m.Untyped.GetValue()
}

// code asks an endpoint and returns the status code.
func code(t testing.TB, client *http.Client, url string, header http.Header) (int, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(request.Header, header)
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// wantCode fails unless a path of a manager is answered with a code before long.
func wantCode(t testing.TB, m *manager.Manager, path string, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s answers %d", path, want), func() error {
		got, err := code(t, m.Client(), m.URL()+path, nil)
		if err == nil && got != want {
			err = fmt.Errorf("it answers %d", got)
		}
		return err
	})
}

// lease reads a lease of kube-system.
func lease(t testing.TB, name string) *coordinationv1.Lease {
	t.Helper()
	l, err := plane.AdminClient().CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func holder(t testing.TB, name string) string {
	t.Helper()
	return ptr.Deref(lease(t, name).Spec.HolderIdentity, "")
}

// workers sets the number of workers of the deployment controller: the edit that restarts
// that controller and no other.
func workers(n int32) func(*manager.Config) {
	return func(c *manager.Config) { c.Controllers.Deployment.ConcurrentSyncs = ptr.To(n) }
}
