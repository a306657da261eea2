package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"kcmd.dev/test/benchmark/report"
	"kcmd.dev/test/controlplane/binaries"
)

func newRenderCommand() *cobra.Command {
	var in string
	var printOnly bool
	command := &cobra.Command{
		Use:   "render",
		Short: "Print the tables of all results, and write the page and the plots of the documentation",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if in == "" {
				path, err := defaultResults()
				if err != nil {
					return err
				}
				in = path
			}
			return render(in, printOnly)
		},
	}
	command.Flags().StringVar(&in, "in", "", "file of the results (default test/benchmark/results/results.json in the repository)")
	command.Flags().BoolVar(&printOnly, "print-only", false, "leave the documentation as it is")
	return command
}

func render(in string, printOnly bool) error {
	f, err := report.Load(in)
	if err != nil {
		return err
	}
	comparisons, voided := report.Aggregate(f.Results)
	fmt.Print(report.Ratios(comparisons), report.Details(comparisons))
	if len(voided) > 0 {
		fmt.Print("\nThese do not count:\n", report.Voids(voided))
	}
	if printOnly {
		return nil
	}
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	rendered, err := report.Render(root, f)
	if err != nil {
		return err
	}
	return rendered.Write(root)
}
