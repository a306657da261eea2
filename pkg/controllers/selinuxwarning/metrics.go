package selinuxwarning

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
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

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(ch chan<- metrics.Metric) {
	shown := sets.New[conflict]()
	for one := range c.conflicts() {
		one.value, one.other = controller.LabelValue(one.value), controller.LabelValue(one.other)
		shown.Insert(one)
	}
	for one := range shown {
		ch <- metrics.NewLazyConstMetric(c.desc, metrics.GaugeValue, 1,
			one.property, one.pod.Namespace, one.pod.Name, one.value, one.with.Namespace, one.with.Name, one.other)
	}
}
