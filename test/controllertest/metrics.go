package controllertest

import (
	"fmt"
	"strings"
	"testing"
)

// Series returns the series of a metric of the instance, as "label=value label=value number".
// The number of a histogram is that of its observations.
func (e *Env) Series(t testing.TB, metric string) []string {
	t.Helper()
	families, err := e.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, series := range family.Metric {
			text := ""
			for _, label := range series.Label {
				text += label.GetName() + "=" + label.GetValue() + " "
			}
			number := series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
			all = append(all, text+fmt.Sprint(number))
		}
	}
	return all
}

// WantOnlyQueueMetrics wants the instance to have metrics of its queues, and no others.
func (e *Env) WantOnlyQueueMetrics(t testing.TB) {
	t.Helper()
	families, err := e.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) == 0 {
		t.Error("there are no metrics")
	}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "workqueue_") {
			t.Errorf("there is a metric %s", family.GetName())
		}
	}
}
