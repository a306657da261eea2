package telemetry

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/config/named"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/source"
)

// Exposition determines which metrics are exposed, and with which labels. component-base
// applies these options to metrics when they are created, permanently. Here they are applied
// when metrics are read, so that they can change in both directions while the process runs.
type Exposition struct {
	showHidden bool
	disabled   sets.Set[string]
	// allowed are label values by metric and label.
	allowed map[string]map[string]sets.Set[string]
}

// newExposition reads the options. manifest is the content of the file that
// allowListMappingManifest names, if it names one.
func newExposition(c v1beta1.Metrics, manifest []byte) (Exposition, error) {
	e := Exposition{
		showHidden: c.ShowHiddenMetricsForVersion != "",
		disabled:   sets.New(c.DisabledMetrics...),
		allowed:    map[string]map[string]sets.Set[string]{},
	}
	mapping := c.AllowListMapping
	if c.AllowListMappingManifest != "" {
		var err error
		if mapping, err = named.AllowList(c.AllowListMappingManifest, manifest); err != nil {
			return Exposition{}, fmt.Errorf("reading the allowed label values: %w", err)
		}
	}
	for key, values := range mapping {
		metric, label, ok := strings.Cut(key, ",")
		if !ok || metric == "" || label == "" {
			return Exposition{}, fmt.Errorf("reading the allowed label values: %q is not of the form metric,label", key)
		}
		if e.allowed[metric] == nil {
			e.allowed[metric] = map[string]sets.Set[string]{}
		}
		e.allowed[metric][label] = sets.New(strings.Split(values, ",")...)
	}
	return e, nil
}

// apply returns what is exposed of some families.
func (e Exposition) apply(families []*dto.MetricFamily, version semver.Version) []*dto.MetricFamily {
	families = slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
		return e.disabled.Has(f.GetName()) || (!e.showHidden && hidden(f.GetHelp(), version))
	})
	for _, f := range families {
		if allowed := e.allowed[f.GetName()]; allowed != nil {
			f.Metric = constrain(f.Metric, allowed)
		}
		if f.GetName() == disabledTotal && len(f.Metric) == 1 && f.Metric[0].Counter != nil {
			count := float64(e.disabled.Len())
			f.Metric[0].Counter.Value = &count
		}
	}
	return families
}

// disabledTotal is the metric that counts the metrics that are not exposed.
const disabledTotal = "disabled_metrics_total"

// deprecated is what component-base puts in front of the help of a deprecated metric.
var deprecated = regexp.MustCompile(`^\[(ALPHA|BETA|STABLE|INTERNAL)\] \(Deprecated since (\d+\.\d+\.\d+)[^)]*\)`)

// hidden reports whether a metric is hidden in a version, by the rule of component-base: a
// deprecated metric is shown for as many minor versions as its stability promises.
func hidden(help string, version semver.Version) bool {
	match := deprecated.FindStringSubmatch(help)
	if match == nil {
		return false
	}
	since, err := semver.Parse(match[2])
	if err != nil || since.Major > version.Major {
		return false
	}
	shown := map[metrics.StabilityLevel]uint64{metrics.STABLE: 3, metrics.BETA: 1}[metrics.StabilityLevel(match[1])]
	return since.Major < version.Major || since.Minor+shown <= version.Minor
}

// unexpected replaces label values that are not allowed.
const unexpected = "unexpected"

// constrain replaces label values that are not allowed. Series that then have the same labels
// are added up.
func constrain(series []*dto.Metric, allowed map[string]sets.Set[string]) []*dto.Metric {
	merged := make([]*dto.Metric, 0, len(series))
	at := map[string]*dto.Metric{}
	for _, one := range series {
		labels, key := relabel(one.Label, allowed)
		first, ok := at[key]
		if ok {
			add(first, one)
			continue
		}
		one.Label = labels
		at[key] = one
		merged = append(merged, one)
	}
	return merged
}

// relabel returns labels with allowed values, and a string that stands for them.
func relabel(labels []*dto.LabelPair, allowed map[string]sets.Set[string]) ([]*dto.LabelPair, string) {
	changed := make([]*dto.LabelPair, 0, len(labels))
	var key strings.Builder
	for _, l := range labels {
		if values, ok := allowed[l.GetName()]; ok && !values.Has(l.GetValue()) {
			name, value := l.GetName(), unexpected
			l = &dto.LabelPair{Name: &name, Value: &value}
		}
		changed = append(changed, l)
		fmt.Fprintf(&key, "%q=%q,", l.GetName(), l.GetValue())
	}
	return changed, key.String()
}

// add adds the values of one series to another of the same family.
func add(to, from *dto.Metric) {
	switch {
	case to.Counter != nil && from.Counter != nil:
		to.Counter.Value = sum(to.Counter.Value, from.Counter.Value)
	case to.Gauge != nil && from.Gauge != nil:
		to.Gauge.Value = sum(to.Gauge.Value, from.Gauge.Value)
	case to.Untyped != nil && from.Untyped != nil:
		to.Untyped.Value = sum(to.Untyped.Value, from.Untyped.Value)
	case to.Summary != nil && from.Summary != nil:
		to.Summary.SampleCount = sum(to.Summary.SampleCount, from.Summary.SampleCount)
		to.Summary.SampleSum = sum(to.Summary.SampleSum, from.Summary.SampleSum)
		to.Summary.Quantile = nil // quantiles cannot be added
	case to.Histogram != nil && from.Histogram != nil:
		addHistogram(to.Histogram, from.Histogram)
	}
}

// addHistogram adds the classic buckets, which all series of a family have in common.
func addHistogram(to, from *dto.Histogram) {
	to.SampleCount = sum(to.SampleCount, from.SampleCount)
	to.SampleSum = sum(to.SampleSum, from.SampleSum)
	for i, bucket := range to.Bucket {
		if i < len(from.Bucket) && bucket.GetUpperBound() == from.Bucket[i].GetUpperBound() {
			bucket.CumulativeCount = sum(bucket.CumulativeCount, from.Bucket[i].CumulativeCount)
		}
	}
}

func sum[T uint64 | float64](a, b *T) *T {
	total := *a + *b
	return &total
}

// ExpositionFiles returns the files that determine which metrics are exposed.
func ExpositionFiles(c v1beta1.Metrics) []string {
	if c.AllowListMappingManifest == "" {
		return nil
	}
	return []string{c.AllowListMappingManifest}
}

// ReadExposition makes an Exposition from the options of metrics and the file that they name.
func ReadExposition(c v1beta1.Metrics) (Exposition, error) {
	var manifest []byte
	for _, name := range ExpositionFiles(c) {
		content, _, err := source.Read(name, named.MaxFileBytes)
		if err != nil {
			return Exposition{}, fmt.Errorf("reading the allowed label values: %w", err)
		}
		manifest = content
	}
	return newExposition(c, manifest)
}
