package controllertest

import (
	"fmt"
	"slices"
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

// Histogram returns the sum of the observations of a histogram of the instance, and the upper bounds of its buckets. It
// fails the test unless there is one series of it.
func (e *Env) Histogram(t testing.TB, metric string) (sum float64, bounds []float64) {
	t.Helper()
	families, err := e.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != metric || len(family.Metric) != 1 {
			continue
		}
		h := family.Metric[0].GetHistogram()
		for _, bucket := range h.Bucket {
			bounds = append(bounds, bucket.GetUpperBound())
		}
		return h.GetSampleSum(), bounds
	}
	t.Fatalf("there is not one series of %s", metric)
	return 0, nil
}

// WantOnlyQueueMetrics wants the instance to have metrics of its queues, and no others. If queues are named, it wants
// those of no other queue.
func (e *Env) WantOnlyQueueMetrics(t testing.TB, queues ...string) {
	t.Helper()
	families, err := e.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) == 0 {
		t.Error("there are no metrics")
	}
	for _, family := range families {
		for _, series := range family.Metric {
			if !strings.HasPrefix(family.GetName(), "workqueue_") || len(queues) > 0 && !slices.Contains(queues, series.Label[0].GetValue()) {
				t.Errorf("there is %s %v", family.GetName(), series.Label)
			}
		}
	}
}
