package report

import (
	"fmt"
	"strings"
)

// usualMode is the mode of the figures that stand for all: no client-side limits.
const usualMode = "unlimited"

// headline is a line of the summary: a figure of a phase.
type headline struct {
	title     string
	phase     string
	otherwise string // says what is measured when there is no result that does
	figure    string
	format    func(float64) string
}

func headlines() []headline {
	const memory, start, writes, until = "memory at rest, MiB", "CPU of the start, s", "writes", "time until a new Deployment has its pod, s"
	large := "start with 50000 running pods on 500 nodes"
	return []headline{
		{memory, GrowthPhase(0), "start with 0 pods", RSS, decimals(0)},
		{memory, "steady", "2000 pods", RSS, decimals(0)},
		{memory, GrowthPhase(10000), "start with 10000 pods", RSS, decimals(0)},
		{memory, GrowthPhase(50000), large, RSS, decimals(0)},
		{memory, "ballast", "start with 2000 ConfigMaps and 2000 Secrets", RSS, decimals(0)},
		{"CPU at rest, ms per minute", "steady", "2000 pods", atRest, decimals(0)},
		{start, GrowthPhase(50000), large, CPU, decimals(1)},
		{"CPU, s", "scale-out", "Deployments, until all are available", CPU, decimals(1)},
		{"CPU, s", "rollout", "a new template for Deployments", CPU, decimals(1)},
		{writes, "scale-out", "Deployments, until all are available", Writes, decimals(0)},
		{writes, "rollout", "a new template for Deployments", Writes, decimals(0)},
		{until, "change", "a setting changed", Wall, decimals(2)},
		{until, "failover-stopped", "the leader stopped (SIGTERM)", Wall, decimals(2)},
		{until, "failover-killed", "the leader killed (SIGKILL)", Wall, decimals(2)},
	}
}

// atRest stands for the processor time of a minute, which is made of two figures.
const atRest = "cpuMillisecondsPerMinute"

// Summary is a table in Markdown of what matters most, with a dash where nothing was measured.
func Summary(comparisons []Comparison) string {
	var b strings.Builder
	b.WriteString("| | | upstream | kcmd | ratio |\n|---|---|---|---|---|\n")
	for _, h := range headlines() {
		c := find(comparisons, h.phase)
		if c == nil {
			c = &Comparison{Size: h.otherwise}
		}
		if h.figure == atRest {
			c = c.ofMinute()
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", h.title, c.Size, c.row(h.figure, h.format))
	}
	return b.String()
}

// ofMinute has the processor time of a minute as its only figure.
func (c *Comparison) ofMinute() *Comparison {
	minute := &Comparison{Key: c.Key, Size: c.Size, Samples: map[string]map[string]Sample{}}
	for subject := range c.Samples {
		if cpu, ok := c.perMinute(subject); ok {
			minute.Samples[subject] = map[string]Sample{atRest: cpu}
		}
	}
	return minute
}
