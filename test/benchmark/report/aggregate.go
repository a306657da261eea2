package report

import (
	"fmt"
	"math"
	"slices"
)

// Key names what is compared: one phase in one mode.
type Key struct{ Scenario, Phase, Mode string }

// Sample is one figure of one subject over all rounds.
type Sample struct {
	Median float64
	// Spread is the largest distance of a value from the median.
	Spread float64
	Count  int
}

// Comparison is one phase in one mode, all rounds of both subjects together.
type Comparison struct {
	Key
	Size  string
	Units float64
	Unit  string
	// Samples are figures by subject and name.
	Samples map[string]map[string]Sample
	// Harness is the median processor time of the benchmark itself, in seconds, by subject.
	Harness map[string]float64
}

// Voided is a result that does not count, and why.
type Voided struct {
	Key
	Subject string
	Round   int
	Reason  string
}

// Aggregate makes one comparison of all results of a phase in a mode, in the order in
// which they first appear. Results that are void, by themselves or because the subjects
// left different states, are returned apart.
func Aggregate(results []Result) ([]Comparison, []Voided) {
	groups := map[Key][]Result{}
	var order []Key
	for _, r := range results {
		k := Key{r.Scenario, r.Phase, r.Mode}
		if _, known := groups[k]; !known {
			order = append(order, k)
		}
		groups[k] = append(groups[k], r)
	}
	var comparisons []Comparison
	var voided []Voided
	for _, k := range order {
		valid, void := separate(k, groups[k])
		voided = append(voided, void...)
		if len(valid) > 0 {
			comparisons = append(comparisons, compare(k, valid))
		}
	}
	return comparisons, voided
}

// separate tells results that count from those that do not. When the end states differ,
// there is no telling which subject is wrong, so nothing counts.
func separate(k Key, group []Result) (valid []Result, void []Voided) {
	for _, r := range group {
		if r.Void != "" {
			void = append(void, Voided{k, r.Subject, r.Round, r.Void})
			continue
		}
		valid = append(valid, r)
	}
	for _, r := range valid {
		if r.EndState == valid[0].EndState && r.Size == valid[0].Size {
			continue
		}
		reason := fmt.Sprintf("%s, %q at the end, but %s, %q for %s", r.Size, r.EndState, valid[0].Size, valid[0].EndState, valid[0].Subject)
		return nil, append(void, Voided{k, r.Subject, r.Round, reason})
	}
	return valid, void
}

func compare(k Key, valid []Result) Comparison {
	c := Comparison{
		Key: k, Size: valid[0].Size, Units: valid[0].Units, Unit: valid[0].Unit,
		Samples: map[string]map[string]Sample{}, Harness: map[string]float64{},
	}
	values := map[string]map[string][]float64{}
	harness := map[string][]float64{}
	for _, r := range valid {
		if values[r.Subject] == nil {
			values[r.Subject] = map[string][]float64{}
		}
		for name, value := range r.Figures {
			values[r.Subject][name] = append(values[r.Subject][name], value)
		}
		harness[r.Subject] = append(harness[r.Subject], r.HarnessCPUSeconds)
	}
	for subject, figures := range values {
		c.Samples[subject] = map[string]Sample{}
		for name, all := range figures {
			c.Samples[subject][name] = summarize(all)
		}
		c.Harness[subject] = summarize(harness[subject]).Median
	}
	return c
}

// summarize needs at least one value.
func summarize(values []float64) Sample {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	median := (sorted[(n-1)/2] + sorted[n/2]) / 2
	return Sample{Median: median, Spread: max(median-sorted[0], sorted[n-1]-median), Count: n}
}

// Figure returns a figure of a subject.
func (c *Comparison) Figure(subject, name string) (Sample, bool) {
	s, ok := c.Samples[subject][name]
	return s, ok
}

// Ratio is ours to upstream's. It is false when a side is missing or upstream's is zero.
func (c *Comparison) Ratio(name string) (float64, bool) {
	ours, ok := c.Figure(Ours, name)
	theirs, both := c.Figure(Upstream, name)
	if !ok || !both || theirs.Median == 0 {
		return 0, false
	}
	return ours.Median / theirs.Median, true
}

// Rounds is the smaller number of rounds of the two subjects, or that of the only one.
func (c *Comparison) Rounds() int {
	fewest := math.MaxInt
	for _, figures := range c.Samples {
		for _, s := range figures {
			fewest = min(fewest, s.Count)
		}
	}
	return fewest
}
