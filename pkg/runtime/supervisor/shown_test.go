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

// While an instance still ends, why none runs after it can change.
func TestTheReasonShownIsTheNewest(t *testing.T) {
	for name, transactional := range map[string]bool{"of a change": true, "of a lease": false} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, "a")
			defer h.shutDown()
			h.sync(wants(map[string]string{"a": "1"}))
			ends := h.instances("a")[0].hang()
			for _, reason := range []string{"the lease is being handed over", "another process holds the lease"} {
				desired := map[string]Want{"a": {State: Standby, Reason: reason}}
				if err := h.Synchronize(desired, CauseLease, transactional); err != nil {
					t.Fatal(err)
				}
				h.eventually("it ends", func() bool { return h.status("a").State == Stopping })
			}
			close(ends)
			h.settle()
			if s := h.status("a"); s.State != Standby || s.Reason != "another process holds the lease" {
				t.Errorf("it is shown as %s: %s", s.State, s.Reason)
			}
		})
	}
}
