package journal

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/telemetry"
)

// exposed are the counts of a registry that are not zero.
func exposed(t *testing.T, r *telemetry.Registry) []string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, one := range f.GetMetric() {
			line := f.GetName()
			for _, l := range one.GetLabel() {
				line += " " + l.GetValue()
			}
			if n := one.GetCounter().GetValue(); n != 0 {
				all = append(all, fmt.Sprintf("%s: %v", line, n))
			}
		}
	}
	slices.Sort(all)
	return all
}

func TestWritesAreCountedByResult(t *testing.T) {
	j, registry := New(), telemetry.NewRegistry()
	j.Register(registry)
	if got := exposed(t, registry); len(got) != 0 {
		t.Errorf("before any instance there are %v", got)
	}
	first := j.Of("a", 1)
	for _, w := range []clients.Write{
		{Code: 200}, {Code: 201}, {Code: 403}, {Code: 409}, {Code: 429}, {Code: 500}, {Code: 503},
		{Message: "connection refused"}, {Refused: true, Message: "paused"},
	} {
		first.Observe(t.Context(), w)
	}
	j.Of("a", 2).Observe(t.Context(), clients.Write{Code: 200}) // its successor
	j.Of("b", 0).Observe(t.Context(), clients.Write{Code: 204})
	want := []string{
		"kcmd_controller_writes_total a failed: 3",
		"kcmd_controller_writes_total a refused: 1",
		"kcmd_controller_writes_total a rejected: 3",
		"kcmd_controller_writes_total a success: 3",
		"kcmd_controller_writes_total b success: 1",
	}
	if diff := cmp.Diff(want, exposed(t, registry)); diff != "" {
		t.Errorf("the counts differ (-want +got):\n%s", diff)
	}
}

// All results of a controller are there from its first instance on, so that their rates are right
// from the first write on.
func TestResultsBeginWithZero(t *testing.T) {
	j, registry := New(), telemetry.NewRegistry()
	j.Register(registry)
	j.Of("a", 1)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, one := range families[0].GetMetric() {
		values = append(values, one.GetLabel()[1].GetValue())
	}
	slices.Sort(values)
	if got := strings.Join(values, " "); got != "failed refused rejected success" {
		t.Errorf("the results are %q", got)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	r, w := New().counts.of("a"), clients.Write{Code: 200}
	if n := testing.AllocsPerRun(100, func() { r.add(&w) }); n != 0 {
		t.Errorf("%v allocations per write", n)
	}
}
