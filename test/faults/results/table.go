package results

import (
	"fmt"
	"slices"
	"strings"
)

// Family is a group of patterns, as docs/proof.md describes them.
type Family struct {
	Name     string
	Patterns []string
}

// Families are all of them, with all patterns.
func Families() []Family {
	return []Family{
		{"intermediate states", []string{"killed before", "killed after", "off and on", "restarted", "handed over"}},
		{"stale states", []string{"behind", "restarted in the past", "taken over behind"}},
		{"unobserved states", []string{"unobserved"}},
		{"refusals", []string{
			"conflict", "invalid", "forbidden", "too many requests", "internal error", "denied by a webhook", "answer lost",
		}},
	}
}

// Table renders the results of these scenarios in Markdown. One that was never run is in it, with nothing.
func (r Results) Table(scenarios []string) string {
	var table strings.Builder
	table.WriteString("| scenario |")
	for _, f := range Families() {
		fmt.Fprintf(&table, " %s |", f.Name)
	}
	table.WriteString(" injected | violations | open |\n|---|" + strings.Repeat("---:|", len(Families())+3) + "\n")
	total := Scenario{Faults: map[string]Count{}}
	for _, name := range slices.Sorted(slices.Values(scenarios)) {
		s := r[name]
		row(&table, name, s)
		for pattern, n := range s.Faults {
			total.Faults[pattern] = plus(total.Faults[pattern], n)
		}
		total.Open, total.Settled = append(total.Open, s.Open...), append(total.Settled, s.Settled...)
	}
	row(&table, "**all**", total)
	return table.String()
}

func row(table *strings.Builder, name string, s Scenario) {
	fmt.Fprintf(table, "| %s |", name)
	for _, f := range Families() {
		var in Count
		for _, pattern := range f.Patterns {
			in = plus(in, s.Faults[pattern])
		}
		fmt.Fprintf(table, " %s |", in)
	}
	var all Count
	for _, n := range s.Faults {
		all = plus(all, n)
	}
	fmt.Fprintf(table, " %s | %d | %d |\n", all, len(s.Open)+len(s.Settled), len(s.Open))
}

func plus(a, b Count) Count { return Count{a.Injected + b.Injected, a.Exist + b.Exist} }
