package report

import (
	"fmt"
	"math"
	"strings"
)

// column is a figure that the tables show.
type column struct {
	figure string
	title  string
	format func(float64) string
}

func columns() []column {
	return []column{
		{CPU, "CPU, s", decimals(2)},
		{PeakRSS, "peak RSS, MiB", decimals(0)},
		{RSS, "RSS at the end, MiB", decimals(0)},
		{Anonymous, "of it anonymous, MiB", decimals(0)},
		{Heap, "live heap, MiB", decimals(1)},
		{Writes, "writes", decimals(0)},
		{Events, "events", decimals(0)},
		{Gets, "GETs", decimals(0)},
		{Lists, "LISTs", decimals(0)},
		{Watches, "WATCHes", decimals(0)},
		{Received, "received, MiB", decimals(1)},
		{Wall, "time, s", decimals(2)},
	}
}

func decimals(n int) func(float64) string {
	return func(v float64) string { return fmt.Sprintf("%.*f", n, v) }
}

// ratioColumns are the figures of the short table.
var ratioColumns = []struct{ figure, title string }{
	{CPU, "CPU"}, {PeakRSS, "peak RSS"}, {RSS, "RSS"}, {Writes, "writes"}, {Gets, "GETs"}, {Received, "received"}, {Wall, "time"},
}

// Ratios is a table in Markdown with one line for each comparison of two subjects: ours
// divided by upstream's.
func Ratios(comparisons []Comparison) string {
	var b strings.Builder
	b.WriteString("| | limits | rounds |")
	for _, c := range ratioColumns {
		fmt.Fprintf(&b, " %s |", c.title)
	}
	b.WriteString("\n|---|---|---|" + strings.Repeat("---|", len(ratioColumns)) + "\n")
	for i := range comparisons {
		c := &comparisons[i]
		if len(c.Samples) < 2 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %d |", c.Size, c.Mode, c.Rounds())
		for _, column := range ratioColumns {
			fmt.Fprintf(&b, " %s |", c.ratioText(column.figure))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// ratioText shows a ratio with two significant digits; a dash where neither has any.
func (c *Comparison) ratioText(figure string) string {
	ratio, ok := c.Ratio(figure)
	if ok {
		return significant(ratio)
	}
	ours, has := c.Figure(Ours, figure)
	theirs, both := c.Figure(Upstream, figure)
	if has && both && ours.Median > 0 && theirs.Median == 0 {
		return fmt.Sprintf("%s : 0", significant(ours.Median))
	}
	return "–"
}

// significant writes a number with two significant digits, more for larger numbers.
func significant(v float64) string {
	if v == 0 {
		return "0"
	}
	places := 1 - int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf("%.*f", min(max(places, 0), 4), v)
}

// Details is a table in Markdown with one line for each figure of each comparison:
// medians, spreads and the ratio.
func Details(comparisons []Comparison) string {
	var b strings.Builder
	for i := range comparisons {
		c := &comparisons[i]
		fmt.Fprintf(&b, "\n%s (%s, limits: %s, rounds: %d; the benchmark itself used %s)\n\n", c.Size, c.Phase, c.Mode, c.Rounds(), c.harnessText())
		b.WriteString("| | upstream | kcmd | ratio |\n|---|---|---|---|\n")
		for _, column := range columns() {
			ours, has := c.Figure(Ours, column.figure)
			theirs, both := c.Figure(Upstream, column.figure)
			if (!has && !both) || ours.Median == 0 && theirs.Median == 0 {
				continue
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", column.title, theirs.text(both, column.format), ours.text(has, column.format), c.ratioText(column.figure))
		}
	}
	return b.String()
}

// text shows the median and, if there were several rounds, the spread.
func (s Sample) text(present bool, format func(float64) string) string {
	switch {
	case !present:
		return "–"
	case s.Count == 1:
		return format(s.Median)
	}
	return format(s.Median) + " ± " + format(s.Spread)
}

func (c *Comparison) harnessText() string {
	var parts []string
	for _, subject := range []string{Upstream, Ours} {
		if seconds, ok := c.Harness[subject]; ok {
			parts = append(parts, fmt.Sprintf("%.2f s of CPU next to %s", seconds, subject))
		}
	}
	return strings.Join(parts, " and ")
}

// Voids lists what does not count, one line each; empty if everything does.
func Voids(voided []Voided) string {
	var b strings.Builder
	for _, v := range voided {
		reason, _, _ := strings.Cut(v.Reason, "\n")
		fmt.Fprintf(&b, "- %s, %s, %s, round %d: %s\n", v.Phase, v.Mode, v.Subject, v.Round+1, reason)
	}
	return b.String()
}
