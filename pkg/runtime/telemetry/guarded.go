package telemetry

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller/concurrent"
)

// guarded is a collector whose panic is an error of gathering. component-base collects in a goroutine of its own, in
// which nobody else recovers it.
type guarded struct {
	metrics.StableCollector
	logged sync.Once
}

// CollectWithStability implements metrics.StableCollector. What was collected before the panic is shown.
func (g *guarded) CollectWithStability(ch chan<- metrics.Metric) {
	panicked := concurrent.Catch(func() { g.StableCollector.CollectWithStability(ch) })
	if panicked == nil {
		return
	}
	g.logged.Do(func() { klog.Background().Error(panicked, "Collecting metrics failed, and is not logged again") })
	err := fmt.Errorf("collecting metrics: panic: %v", panicked.Value)
	ch <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
}
