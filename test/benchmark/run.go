package benchmark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"kcmd.dev/test/benchmark/report"
	"kcmd.dev/test/controlplane"
)

// Run runs the chosen scenarios and saves each result as soon as there is one. A
// scenario that fails is recorded as void and does not keep the others from running;
// the error is that of the benchmark itself, or of an ended ctx.
func Run(ctx context.Context, o Options) error {
	if err := o.complete(); err != nil {
		return err
	}
	chosen, err := o.scenarios()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "kcmd-bench-")
	if err != nil {
		return fmt.Errorf("creating a folder for programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	r := &runner{options: &o}
	if r.programs, err = build(ctx, &o, folder); err != nil {
		return err
	}
	if r.file, err = report.Load(o.Out); err != nil {
		return err
	}
	if r.file.Environment, err = environment(); err != nil {
		return err
	}
	for m, mode := range o.Modes {
		for _, scenario := range chosen {
			if m > 0 && !scenario.limits {
				continue
			}
			if err := r.repeat(ctx, scenario, mode); err != nil {
				return err
			}
		}
	}
	return nil
}

// runner is one invocation.
type runner struct {
	options  *Options
	programs programs
	file     *report.File
}

// repeat runs all rounds of a scenario in a mode.
func (r *runner) repeat(ctx context.Context, scenario Scenario, mode Mode) error {
	r.file.Forget(scenario.Name, string(mode))
	for round := range r.options.Rounds {
		for _, name := range r.options.order(round) {
			if scenario.oursOnly && name != report.Ours {
				continue
			}
			began := time.Now()
			err := r.once(ctx, scenario, mode, name, round)
			r.sort()
			if err := errors.Join(r.file.Save(r.options.Out), context.Cause(ctx)); err != nil {
				return err
			}
			outcome := "done"
			if err != nil {
				outcome = err.Error()
			}
			r.printf("%s, %s, round %d, %s: %s in %s\n", scenario.Name, mode, round+1, name, outcome, time.Since(began).Round(100*time.Millisecond))
		}
	}
	return nil
}

// sort puts the results in the order of the modes and scenarios, in whichever order they
// were measured.
func (r *runner) sort() {
	place := func(result report.Result) int {
		all := Scenarios()
		scenario := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == result.Scenario })
		return slices.Index(Modes, Mode(result.Mode))*len(all) + scenario
	}
	slices.SortStableFunc(r.file.Results, func(a, b report.Result) int { return place(a) - place(b) })
}

// once runs a scenario on a control plane of its own.
func (r *runner) once(ctx context.Context, scenario Scenario, mode Mode, name string, round int) (err error) {
	plane, err := controlplane.Start(ctx, scenario.plane)
	if err != nil {
		return r.void(scenario, mode, name, round, err)
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	s := &stage{
		options: r.options, scenario: scenario.Name, mode: mode, name: name, round: round,
		subject: r.programs.subject(name), plane: plane, client: plane.AdminClient(),
	}
	recorded := 0
	s.record = func(result report.Result) {
		result.Command = r.options.Command
		recorded++
		r.file.Results = append(r.file.Results, result)
		r.printf("  %s, %s: %s\n", result.Phase, name, report.Line(result))
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := scenario.run(ctx, s); err != nil {
		if recorded == 0 {
			return r.void(scenario, mode, name, round, err)
		}
		return err
	}
	return nil
}

// void records that a scenario failed before anything was measured.
func (r *runner) void(scenario Scenario, mode Mode, name string, round int, err error) error {
	r.file.Results = append(r.file.Results, report.Result{
		Scenario: scenario.Name, Phase: scenario.Name, Mode: string(mode), Subject: name, Round: round, Command: r.options.Command, Void: err.Error(),
	})
	return err
}

func (r *runner) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.options.Log, format, args...)
}
