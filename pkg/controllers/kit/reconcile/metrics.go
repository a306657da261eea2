package reconcile

import (
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

// queueMetrics are the metrics of one work queue under the names that client-go gives
// them. Gauges are computed when they are read, so an idle queue costs nothing.
type queueMetrics struct {
	adds          *metrics.Counter
	retries       *metrics.Counter
	queueDuration *metrics.Histogram
	workDuration  *metrics.Histogram
	gauges        *gauges
}

// source provides the values of the gauges.
type source interface {
	ages() (sum, longest float64)
	depth() float64
}

func (l *Loop[K]) ages() (sum, longest float64) {
	s, max := l.record.ages()
	return s.Seconds(), max.Seconds()
}

func (l *Loop[K]) depth() float64 { return float64(l.lanes.Len()) }

func newQueueMetrics(queue string, from source) *queueMetrics {
	labels := map[string]string{"name": queue}
	return &queueMetrics{
		adds: metrics.NewCounter(&metrics.CounterOpts{
			Subsystem: "workqueue", Name: "adds_total", ConstLabels: labels, StabilityLevel: metrics.BETA,
			Help: "Total number of adds handled by workqueue",
		}),
		retries: metrics.NewCounter(&metrics.CounterOpts{
			Subsystem: "workqueue", Name: "retries_total", ConstLabels: labels, StabilityLevel: metrics.BETA,
			Help: "Total number of retries handled by workqueue",
		}),
		queueDuration: metrics.NewHistogram(&metrics.HistogramOpts{
			Subsystem: "workqueue", Name: "queue_duration_seconds", ConstLabels: labels, StabilityLevel: metrics.BETA,
			Help:    "How long in seconds an item stays in workqueue before being requested.",
			Buckets: metrics.ExponentialBuckets(10e-9, 10, 10),
		}),
		workDuration: metrics.NewHistogram(&metrics.HistogramOpts{
			Subsystem: "workqueue", Name: "work_duration_seconds", ConstLabels: labels, StabilityLevel: metrics.BETA,
			Help:    "How long in seconds processing an item from workqueue takes.",
			Buckets: metrics.ExponentialBuckets(10e-9, 10, 10),
		}),
		gauges: newGauges(queue, from),
	}
}

func (m *queueMetrics) register(r controller.MetricsRegistry) {
	r.MustRegister(m.adds, m.retries, m.queueDuration, m.workDuration)
	r.CustomMustRegister(m.gauges)
}

// gauges reads the gauges from the loop on every scrape.
type gauges struct {
	metrics.BaseStableCollector
	queue                      string
	from                       source
	depth, unfinished, longest *metrics.Desc
}

func newGauges(queue string, from source) *gauges {
	desc := func(name, help string) *metrics.Desc {
		return metrics.NewDesc("workqueue_"+name, help, nil, map[string]string{"name": queue}, metrics.BETA, "")
	}
	return &gauges{
		queue: queue,
		from:  from,
		depth: desc("depth", "Current depth of workqueue"),
		unfinished: desc("unfinished_work_seconds", "How many seconds of work has done that "+
			"is in progress and hasn't been observed by work_duration. Large "+
			"values indicate stuck threads. One can deduce the number of stuck "+
			"threads by observing the rate at which this increases."),
		longest: desc("longest_running_processor_seconds", "How many seconds has the longest running "+
			"processor for workqueue been running."),
	}
}

// DescribeWithStability implements metrics.StableCollector.
func (g *gauges) DescribeWithStability(ch chan<- *metrics.Desc) {
	ch <- g.depth
	ch <- g.unfinished
	ch <- g.longest
}

// CollectWithStability implements metrics.StableCollector.
func (g *gauges) CollectWithStability(ch chan<- metrics.Metric) {
	sum, longest := g.from.ages()
	ch <- metrics.NewLazyConstMetric(g.depth, metrics.GaugeValue, g.from.depth())
	ch <- metrics.NewLazyConstMetric(g.unfinished, metrics.GaugeValue, sum)
	ch <- metrics.NewLazyConstMetric(g.longest, metrics.GaugeValue, longest)
}
