// Package nodelifecycle stands in for upstream's, see kcmd.dev/test/suites.
package nodelifecycle

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"

	"kcmd.dev/test/suites/launch"
)

var (
	UnreachableTaintTemplate = &v1.Taint{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoExecute}
	NotReadyTaintTemplate    = &v1.Taint{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoExecute}
)

func NewNodeLifecycleController(_ context.Context, leases, pods, nodes, daemonSets, client any,
	monitor, startupGrace, grace time.Duration, rate, secondaryRate float32, large int32, unhealthy float32,
) (*launch.Controller, error) {
	controllers := "node-lifecycle-controller"
	if !utilfeature.DefaultFeatureGate.Enabled(features.SeparateTaintEvictionController) {
		// Upstream's has that inside then. The manager runs it by itself, and it has to be selected: TAINT-49.
		controllers += ",taint-eviction-controller"
	}
	return launch.New([]any{leases, pods, nodes, daemonSets, client}, controllers,
		"--node-monitor-period="+monitor.String(), "--node-startup-grace-period="+startupGrace.String(),
		"--node-monitor-grace-period="+grace.String(), fmt.Sprintf("--node-eviction-rate=%g", rate),
		fmt.Sprintf("--secondary-node-eviction-rate=%g", secondaryRate),
		fmt.Sprintf("--large-cluster-size-threshold=%d", large), fmt.Sprintf("--unhealthy-zone-threshold=%g", unhealthy)), nil
}
