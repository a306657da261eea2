package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"kcmd.dev/test/benchmark/report"
)

func newRenderCommand() *cobra.Command {
	var in string
	command := &cobra.Command{
		Use:   "render",
		Short: "Print the table of all results",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			f, err := report.Load(in)
			if err != nil {
				return err
			}
			for _, r := range f.Results {
				fmt.Println(r.Phase, r.Subject, report.Line(r))
			}
			return nil
		},
	}
	command.Flags().StringVar(&in, "in", "", "")
	return command
}
