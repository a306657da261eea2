package report

import (
	"fmt"
	"strings"
)

// ControllersPhases are the phases with no controller, half of them and all.
var ControllersPhases = []string{"controllers-none", "controllers-half", "controllers-all"}

// Controllers is a table in Markdown of what kcmd needs with some of its controllers and nothing to do,
// and below it what one controller costs; empty if that was not measured.
func Controllers(comparisons []Comparison) string {
	var measured []*Comparison
	for _, phase := range ControllersPhases {
		if c := find(comparisons, phase); c != nil {
			measured = append(measured, c)
		}
	}
	if len(measured) != len(ControllersPhases) {
		return ""
	}
	var b strings.Builder
	b.WriteString("| controllers | RSS, MiB | of it anonymous, MiB | live heap, MiB | CPU, ms per minute |\n|---|---|---|---|---|\n")
	for _, c := range measured {
		cell := func(figure string) string {
			s, ok := c.Figure(Ours, figure)
			return s.text(ok, decimals(1))
		}
		cpu, ok := c.perMinute(Ours)
		fmt.Fprintf(&b, "| %.0f | %s | %s | %s | %s |\n", c.Units, cell(RSS), cell(Anonymous), cell(Heap), cpu.text(ok, decimals(0)))
	}
	// Not of RSS: how much of the program is mapped depends on what ran before, and not on controllers.
	none, all := measured[0], measured[len(measured)-1]
	each := func(figure string) string {
		a, has := all.Figure(Ours, figure)
		n, had := none.Figure(Ours, figure)
		return difference(a, n, (1<<10)/(all.Units-none.Units)).text(has && had, decimals(0))
	}
	a, has := all.perMinute(Ours)
	n, had := none.perMinute(Ours)
	cpu := difference(a, n, 1/(all.Units-none.Units)).text(has && had, decimals(1))
	fmt.Fprintf(&b, "\nOne more controller costs %s KiB of anonymous memory, of it %s KiB of live heap, and %s ms of processor time per minute.\n", each(Anonymous), each(Heap), cpu)
	return b.String()
}

// perMinute is the processor time of a phase in which nothing happens, in milliseconds per minute.
func (c *Comparison) perMinute(subject string) (Sample, bool) {
	cpu, ok := c.Figure(subject, CPU)
	minutes := c.idleMinutes(subject)
	if !ok || minutes == 0 {
		return Sample{}, false
	}
	const milli = 1000
	return difference(cpu, Sample{Count: cpu.Count}, milli/minutes), true
}

// idleMinutes is how long nothing happened: the units of a phase of which that is all, else its time.
func (c *Comparison) idleMinutes(subject string) float64 {
	if c.Unit == "minute" {
		return c.Units
	}
	wall, _ := c.Figure(subject, Wall)
	return wall.Median / 60
}
