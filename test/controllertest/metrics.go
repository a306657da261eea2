package controllertest

import (
	"fmt"
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
