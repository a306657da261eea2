package supervisor

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
)

// Every controller is counted as running or not, by its canonical name. Pins MGR-132 and MGR-180.
func TestRunningControllersAreCounted(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	m := NewMetrics(registry)
	for name, state := range map[string]State{"node-ipam-controller": Running, "job-controller": Standby, "namespace-controller": Waiting, "ttl-controller": Running} {
		m.setState(name, Running)
		m.setState(name, state)
	}
	want := `
# HELP running_managed_controllers [BETA] Indicates where instances of a controller are currently running
# TYPE running_managed_controllers gauge
running_managed_controllers{manager="kube-controller-manager",name="job-controller"} 0
running_managed_controllers{manager="kube-controller-manager",name="namespace-controller"} 0
running_managed_controllers{manager="kube-controller-manager",name="node-ipam-controller"} 1
running_managed_controllers{manager="kube-controller-manager",name="ttl-controller"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "running_managed_controllers"); err != nil {
		t.Error(err)
	}
}

// Only an instance that runs shows something of itself. Pins MGR-111.
func TestOnlyTheLeaderShowsItsControllers(t *testing.T) {
	h := newHarness(t, "a")
	defer h.shutDown()
	shown := func() http.Handler { return h.DebuggingHandler("a") }
	if shown() != nil || h.DebuggingHandler("unknown") != nil {
		t.Error("something is shown of a controller that was not started")
	}
	h.sync(wants(map[string]string{"a": "1"}))
	if shown() == nil {
		t.Error("nothing is shown of a controller that runs")
	}
	h.sync(map[string]Want{"a": {State: Standby}})
	h.eventually("nothing is shown", func() bool { return shown() == nil })
}
