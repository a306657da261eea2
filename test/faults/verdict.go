package faults

import (
	"fmt"
	"maps"
	"slices"
)

// tolerance is how many times the writes of the reference a run with a fault may send.
const tolerance = 3

// outcome is what came of a run.
type outcome struct {
	history
	footprint
	writes []write
	reads  []string // the kinds that were watched, as group resources
	final  state
	// unrest is why the run did not come to its end, or did not stay there; empty if it did.
	unrest string
}

// judge returns what a run violates of what it has to keep.
func judge(s *Scenario, reference, run outcome) []string {
	var violations []string
	if run.unrest != "" {
		violations = append(violations, run.unrest)
	}
	violations = append(violations, differences(reference.final, run.final)...)
	for _, key := range slices.Sorted(maps.Keys(run.deleted)) {
		if n, most := run.deleted[key], reference.deleted[key]+s.Spare[key]; n > most {
			violations = append(violations, fmt.Sprintf("%d %s were deleted, in the reference %d", n, key, reference.deleted[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(run.created)) {
		if n, most := run.created[key], reference.created[key]+s.Spare[key]; n > most {
			violations = append(violations, fmt.Sprintf("%d %s were created, in the reference %d", n, key, reference.created[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.AtMost)) {
		if n := run.most[key]; n > s.AtMost[key] {
			violations = append(violations, fmt.Sprintf("%d %s existed at the same time, at most %d may", n, key, s.AtMost[key]))
		}
	}
	if n, most := len(run.writes), tolerance*len(reference.writes); n > most {
		violations = append(violations, fmt.Sprintf("%d writes were sent, %d in the reference", n, len(reference.writes)))
	}
	return append(violations, leaks(reference.footprint, run.footprint)...)
}
