package selinuxwarning

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
)

// collector shows the conflicts that there are when the metrics are read.
type collector struct {
	metrics.BaseStableCollector
	conflicts func() sets.Set[conflict]
	desc      *metrics.Desc
}

func registerMetrics(r controller.MetricsRegistry, conflicts func() sets.Set[conflict]) {
	r.CustomMustRegister(&collector{conflicts: conflicts, desc: metrics.NewDesc(
		"selinux_warning_controller_selinux_volume_conflict", "Conflict between two Pods using the same volume",
		[]string{"property", "pod1_namespace", "pod1_name", "pod1_value", "pod2_namespace", "pod2_name", "pod2_value"},
		nil, metrics.ALPHA, "")})
}

// DescribeWithStability implements metrics.StableCollector.
func (c *collector) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- c.desc }

// CollectWithStability implements metrics.StableCollector. It runs in a goroutine of whoever reads the
// metrics, where nobody else catches a panic.
func (c *collector) CollectWithStability(ch chan<- metrics.Metric) {
	var all sets.Set[conflict]
	if panicked := concurrent.Catch(func() { all = c.conflicts() }); panicked != nil {
		klog.Background().Error(panicked, "Reading the conflicts between pods failed")
		return
	}
	for one := range all {
		ch <- metrics.NewLazyConstMetric(c.desc, metrics.GaugeValue, 1,
			one.property, one.pod.Namespace, one.pod.Name, one.value, one.with.Namespace, one.with.Name, one.other)
	}
}
