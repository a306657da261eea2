// Package promises tests what the runtime promises, against a real API server: bad files
// are harmless, every way of editing a file is seen, what can change in place does, and
// controllers are stopped, replaced and isolated without the others noticing.
//
//  1. All tests share one control plane. Each runs a manager of its own, with a lease
//     named after the test, so that none depends on another.
//  2. "Nothing restarted" means: every controller that ran still has the instance it
//     had, told by its generation and its start time.
//  3. Nothing waits for time to pass. What happens later is polled for with a deadline.
//
// A variable in the environment makes a test larger, with the same code:
//
//	KCMD_RESTARTS  how often every controller is stopped and started, default 30
package promises

import (
	"bytes"
	"context"
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
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const (
	deployment = "deployment-controller"
	replicaSet = "replicaset-controller"
	rootCA     = "root-ca-certificate-publisher-controller"
	tokens     = "serviceaccount-token-controller"

	// patience bounds waits for a process or a connection. It is long because the machine
	// may be busy; nothing takes it when all is well.
	patience = 20 * time.Second
)

var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	os.Exit(controlplane.RunTests(m, controlplane.Options{}, func(cp *controlplane.ControlPlane) { plane = cp }))
}

// ownLease keeps the managers of different tests apart.
func ownLease(t testing.TB, edit func(*manager.Config)) func(*manager.Config) {
	return harness.All(harness.OwnLease(t), edit)
}

// start runs a manager in this process until the end of the test.
func start(t testing.TB, edit func(*manager.Config)) *manager.Manager {
	t.Helper()
	return manager.Start(t, plane, ownLease(t, edit))
}

// begin runs a manager with options of the test's and does not wait for its controllers.
func begin(t testing.TB, o runtime.Options, edit func(*manager.Config)) *manager.Manager {
	t.Helper()
	return manager.Join(t, plane, o, ownLease(t, edit))
}

// subject is a manager in this process or in one of its own.
type subject interface {
	harness.Subject
	WaitRunning(context.Context) error
	Get(context.Context, string) ([]byte, error)
	ConfigFile() string
}

func waitRunning(t testing.TB, m subject) {
	t.Helper()
	must.Succeed(t, m.WaitRunning(t.Context()))
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
	await.That(t, "metrics can be read", func(context.Context) (err error) {
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
	await.That(t, fmt.Sprintf("%s answers %d", path, want), func(context.Context) error {
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
