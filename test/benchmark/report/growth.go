package report

import (
	"fmt"
	"strings"
)

const growthPrefix = "growth-"

// GrowthPhase is the name of a start with a number of pods, at full size.
func GrowthPhase(pods int) string { return fmt.Sprintf("%s%d", growthPrefix, pods) }

// Growth is a table in Markdown of memory and processor time by the number of pods.
func Growth(comparisons []Comparison) string {
	figures := []struct {
		name   string
		format func(float64) string
	}{{PeakRSS, decimals(0)}, {RSS, decimals(0)}, {CPU, decimals(2)}}
	var b strings.Builder
	b.WriteString("| pods | upstream: peak RSS, MiB | kcmd | ratio | upstream: RSS at rest, MiB | kcmd | ratio | upstream: CPU of the start, s | kcmd | ratio |\n")
	b.WriteString("|---|" + strings.Repeat("---|---|---|", len(figures)) + "\n")
	for i := range comparisons {
		c := &comparisons[i]
		if !strings.HasPrefix(c.Phase, growthPrefix) {
			continue
		}
		fmt.Fprintf(&b, "| %.0f |", c.Units)
		for _, figure := range figures {
			fmt.Fprintf(&b, " %s |", c.row(figure.name, figure.format))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// row is three cells of a table: a figure of upstream and of ours, and the ratio.
func (c *Comparison) row(figure string, format func(float64) string) string {
	theirs, both := c.Figure(Upstream, figure)
	ours, has := c.Figure(Ours, figure)
	return fmt.Sprintf("%s | %s | %s", theirs.text(both, format), ours.text(has, format), c.ratioText(figure))
}
