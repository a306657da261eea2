package benchmark

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"kcmd.dev/test/benchmark/report"
)

// Mode says which client-side limits the managers have.
type Mode string

// Modes.
const (
	// Unlimited: both may send 5,000 requests per second, which is never reached.
	Unlimited Mode = "unlimited"
	// Limited: both may send 20 requests per second in bursts of 30, which is
	// upstream's default.
	Limited Mode = "limited"
	// Defaults: each has its own default; ours has no limit.
	Defaults Mode = "defaults"
)

// Modes are all modes.
var Modes = []Mode{Unlimited, Limited, Defaults}

// Options choose what is run.
type Options struct {
	// Scenarios are names of scenarios; empty runs all.
	Scenarios []string
	// Modes are run one after another; default: Unlimited and Defaults.
	Modes []Mode
	// Subjects are report.Ours and report.Upstream; default: both.
	Subjects []string
	// Rounds is how often each subject is measured; default 3.
	Rounds int
	// Scale multiplies all sizes; default 1.
	Scale float64
	// Idle is how long the steady state is watched; default 3 minutes.
	Idle time.Duration
	// PhaseTimeout bounds each phase; default 15 minutes.
	PhaseTimeout time.Duration
	// Out is the file of the results; those of other scenarios and modes are kept.
	Out string
	// Profiles is a folder for profiles of our manager, which is slowed down by taking
	// them; empty takes none.
	Profiles string
	// Log receives progress; nil discards it.
	Log io.Writer
	// Command is noted in the results.
	Command string
}

func (o *Options) complete() error {
	if len(o.Modes) == 0 {
		o.Modes = []Mode{Unlimited, Defaults}
	}
	if len(o.Subjects) == 0 {
		o.Subjects = []string{report.Upstream, report.Ours}
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.PhaseTimeout == 0 {
		o.PhaseTimeout = 15 * time.Minute
	}
	for _, m := range o.Modes {
		if !slices.Contains(Modes, m) {
			return fmt.Errorf("unknown mode %q, known are %v", m, Modes)
		}
	}
	for _, s := range o.Subjects {
		if s != report.Ours && s != report.Upstream {
			return fmt.Errorf("unknown subject %q, known are %s and %s", s, report.Ours, report.Upstream)
		}
	}
	if o.Rounds < 1 {
		return fmt.Errorf("%d rounds", o.Rounds)
	}
	if !(o.Scale > 0) || math.IsInf(o.Scale, 0) {
		return fmt.Errorf("scale %v", o.Scale)
	}
	return nil
}

// scenarios returns the chosen scenarios, in the order of Scenarios.
func (o *Options) scenarios() ([]Scenario, error) {
	all := Scenarios()
	if len(o.Scenarios) == 0 {
		return all, nil
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	for _, name := range o.Scenarios {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("unknown scenario %q, known are %s", name, strings.Join(names, ", "))
		}
	}
	return slices.DeleteFunc(all, func(s Scenario) bool { return !slices.Contains(o.Scenarios, s.Name) }), nil
}

// order returns the subjects in the order of a round, counted from 0: every other round
// is reversed.
func (o *Options) order(round int) []string {
	subjects := slices.Clone(o.Subjects)
	if round%2 == 1 {
		slices.Reverse(subjects)
	}
	return subjects
}

// scaled multiplies a size by the scale; the result is at least 1.
func scaled(size int, scale float64) int {
	return max(1, int(math.Round(float64(size)*scale)))
}
