package telemetry

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// distinct gathers registries for a gatherer that refuses a series which two of them hold. The
// one that is gathered first has the values of all.
func distinct(registries []*Registry) prometheus.Gatherers {
	first := map[string]*dto.Metric{}
	all := make(prometheus.Gatherers, 0, len(registries))
	for _, r := range registries {
		families, err := r.Gather()
		for _, f := range families {
			f.Metric = slices.DeleteFunc(f.Metric, func(one *dto.Metric) bool {
				_, key := relabel(one.Label, nil)
				key = f.GetName() + "{" + key
				if other, ok := first[key]; ok {
					add(other, one)
					return true
				}
				first[key] = one
				return false
			})
		}
		families = slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return len(f.Metric) == 0 })
		all = append(all, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, err }))
	}
	return all
}
