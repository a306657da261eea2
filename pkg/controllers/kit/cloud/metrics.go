package cloud

import (
	"sync"

	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
)

// Metrics show which controllers of the library run.
type Metrics = controllersmetrics.ControllerManagerMetrics

// metrics counts which controllers of the library run, under their former names
// (running_managed_controllers).
var metrics = sync.OnceValue(func() *Metrics {
	controllersmetrics.Register()
	return controllersmetrics.NewControllerManagerMetrics("kube-controller-manager")
})
