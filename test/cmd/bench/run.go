package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kcmd.dev/test/benchmark"
	"kcmd.dev/test/controlplane/binaries"
)

func newRunCommand() *cobra.Command {
	o := benchmark.Options{Log: os.Stderr}
	var modes []string
	command := &cobra.Command{
		Use:   "run",
		Short: "Measure, and save the results",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			for _, m := range modes {
				o.Modes = append(o.Modes, benchmark.Mode(m))
			}
			if o.Out == "" {
				path, err := defaultResults()
				if err != nil {
					return err
				}
				o.Out = path
			}
			o.Command = invocation(command)
			return benchmark.Run(command.Context(), o)
		},
	}
	var names []string
	for _, s := range benchmark.Scenarios() {
		names = append(names, s.Name)
	}
	flags := command.Flags()
	flags.StringSliceVar(&o.Scenarios, "scenarios", nil, "what to run, any of "+strings.Join(names, ",")+" (default all)")
	flags.StringSliceVar(&modes, "mode", nil, "client limits: unlimited or limited (20 requests per second) for both, or defaults for each its own (default unlimited,defaults)")
	flags.StringSliceVar(&o.Subjects, "subjects", nil, "kcmd, upstream or both (default both)")
	flags.IntVar(&o.Rounds, "rounds", 3, "how often each is measured")
	flags.Float64Var(&o.Scale, "scale", 1, "factor of all sizes")
	flags.DurationVar(&o.Idle, "idle", 3*time.Minute, "how long the steady state is watched")
	flags.DurationVar(&o.PhaseTimeout, "timeout", 15*time.Minute, "longest time for one phase")
	flags.StringVar(&o.Profiles, "profiles", "", "folder for profiles of our manager, which they slow down (default none)")
	flags.StringVar(&o.Out, "out", "", "file of the results (default test/benchmark/results/results.json in the repository)")
	return command
}

// invocation is the command as it is noted with the results: with every flag that has an
// influence on them.
func invocation(command *cobra.Command) string {
	words := []string{command.CommandPath()}
	for _, name := range []string{"scenarios", "mode", "subjects", "rounds", "scale", "idle", "timeout"} {
		if f := command.Flags().Lookup(name); f.Changed {
			words = append(words, fmt.Sprintf("--%s=%s", name, strings.Trim(f.Value.String(), "[]")))
		}
	}
	return strings.Join(words, " ")
}

func defaultResults() (string, error) {
	root, err := binaries.Root()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "test", "benchmark", "results", "results.json"), nil
}
