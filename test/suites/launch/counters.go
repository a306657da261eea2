package launch

import (
	"bytes"
	"context"
	"fmt"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/component-base/metrics"
)

// metricsPath is where the manager shows its metrics, which anybody may read, too.
const metricsPath = "/metrics"

// countInterval is how often the manager's counters are read.
const countInterval = 100 * time.Millisecond

// Count has counters of this process, which tests read, follow those of the manager that have their names.
func (c *Controller) Count(counters map[string]*metrics.CounterVec) { c.counters = counters }

// count follows the counters until the end of ctx.
func (c *Controller) count(ctx context.Context) {
	if len(c.counters) == 0 {
		return
	}
	ticker := time.NewTicker(countInterval)
	defer ticker.Stop()
	counted := map[string]float64{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if shown, ok := c.get(metricsPath); ok {
			add(c.counters, counted, shown)
		}
	}
}

// add adds to counters what shown, metrics in their text form, has counted since the last time.
func add(counters map[string]*metrics.CounterVec, counted map[string]float64, shown string) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewBufferString(shown))
	if err != nil {
		return // of an answer that was cut off
	}
	for name, counter := range counters {
		for _, series := range families[name].GetMetric() {
			labels, value := labelsOf(series), series.GetCounter().GetValue()
			key := fmt.Sprint(name, labels) // maps are printed in order
			counter.With(labels).Add(value - counted[key])
			counted[key] = value
		}
	}
}

func labelsOf(series *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, pair := range series.GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}
	return labels
}
