// Package monitoring tests what configs/monitoring has for the operator of Prometheus and
// Grafana, with the real Prometheus, which scrapes managers of a real control plane.
//
//  1. Every panel of the dashboard, every recording rule and every annotation gets data from two
//     replicas that have had something to do.
//  2. Every alert is provoked for real, fires, and resolves when the cause is gone. The test's copy
//     of an alert is the same but for durations: it fires after a moment, and looks back seconds.
//  3. Each test has a Prometheus and managers of its own, with a lease of their own. Tests wait
//     for what Prometheus says, and never for time to pass.
package monitoring

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const (
	deployment = "deployment-controller"
	// job is what the alerts and the dashboard call the managers.
	job = "kube-controller-manager"
)

var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	flag.Parse()
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(controlplane.RunTests(m, controlplane.Options{}, func(cp *controlplane.ControlPlane) { plane = cp }))
}

// prepare builds Prometheus, and lets more tests run at once than there are processors, unless the
// command line says otherwise: they mostly wait for the next scrape.
func prepare() error {
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		if err := parallel.Value.Set("7"); err != nil {
			return err
		}
	}
	_, err := binaries.Build(context.Background(), os.Stderr, binaries.Prometheus)
	return err
}

// sample is the path of a file in configs/monitoring.
func sample(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(must.Get(binaries.Root())(t), "configs", "monitoring", name)
}

// light has a manager run two controllers, without a lease, and notice edits at once. With leases the
// managers of tests in parallel would wait for each other: none starts a controller that the holder
// of another lease runs.
func light(c *manager.Config) {
	harness.All(harness.WithoutLease, harness.Settle(0), harness.Only(func(c *manager.Config) []**bool {
		return []**bool{&c.Controllers.Deployment.Enabled, &c.Controllers.ReplicaSet.Enabled}
	}))(c)
}

// elected has a manager run one controller, which no other test runs, under a lease.
func elected(enabled func(*manager.Config) **bool) func(*manager.Config) {
	return harness.All(harness.ShortLease, harness.Settle(0), harness.Only(func(c *manager.Config) []**bool {
		return []**bool{enabled(c)}
	}))
}
