package faults

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// series are those of the metrics of controllers that have counted or measured something.
type series []string

// elsewhere begins the names of metrics that are not compared: those of libraries and of the process, one of which,
// endpoint_slice_controller, counts what all managers of the tests' process do, and one that a released program hides.
var elsewhere = regexp.MustCompile(`^(go|process|rest_client|workqueue|apiserver|apiextensions|authentication|authorization|authenticated|` +
	`aggregator|informer|kubernetes|registered_metrics|disabled_metrics|hidden_metrics|cardinality|leader_election|` +
	`running_managed_controllers|version_info|kcmd|endpoint_slice_controller|volume_operation_total_errors)`)

// retried matches a series of what depends on which event comes first: a manager that is late fails, and tries again.
var retried = regexp.MustCompile(`^[a-z_]+_stale_sync_skips_total\{|result="(error|stale)"`)

// series reads the metrics of the manager that runs.
func (p *play) series(ctx context.Context) (series, error) {
	manager, err := p.world.leader(ctx)
	if err != nil {
		return nil, err
	}
	text, err := manager.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return seriesOf(text, p.seen.public)
}

// seriesOf returns what a page of metrics shows. Names in the values of labels become public.
func seriesOf(text []byte, public func(string) string) (series, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	var all series
	for name, family := range families {
		if elsewhere.MatchString(name) {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), public(l.GetValue())))
			}
			slices.Sort(labels)
			one := name + "{" + strings.Join(labels, ",") + "}"
			if measured(m) && !retried.MatchString(one) {
				all = append(all, one)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// measured reports whether a series is more than zero.
func measured(m *dto.Metric) bool {
	return m.GetCounter().GetValue() != 0 || m.GetGauge().GetValue() != 0 || m.GetHistogram().GetSampleCount() != 0 || m.GetSummary().GetSampleCount() != 0
}

// unlike returns what only one of two managers has measured.
func unlike(want, got series) (all []string) {
	for _, one := range want {
		if !slices.Contains(got, one) {
			all = append(all, "missing: metric "+one)
		}
	}
	for _, one := range got {
		if !slices.Contains(want, one) {
			all = append(all, "too much: metric "+one)
		}
	}
	return all
}
