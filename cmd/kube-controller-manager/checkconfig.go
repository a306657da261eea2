package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/source"
)

func newCheckConfig() *cobra.Command {
	var against string
	var environment bool
	cmd := &cobra.Command{
		Use:   "check-config FILE...",
		Short: "Says whether configuration files are valid, and what an edit would restart",
		Long: `Validates configuration files with the code that the running process uses.

Every problem of a file is reported, as file:line:column: field: message.
With --against OLD it prints what a running process would do when OLD is replaced by FILE.
The files that a configuration names are only looked at with --environment, so that a
file can be checked where it does not run. FILE can be - for the standard input.`,
		Example: `  kube-controller-manager check-config config.yaml
  kube-controller-manager check-config new.yaml --against config.yaml`,
		RunE: func(cmd *cobra.Command, files []string) error {
			switch {
			case len(files) == 0:
				return misuse{errors.New("check-config needs a FILE")}
			case against != "" && len(files) > 1:
				return misuse{errors.New("--against compares with one FILE, not with several")}
			}
			checker := checker{in: cmd.InOrStdin(), out: cmd.OutOrStdout(), problems: cmd.ErrOrStderr(), environment: environment}
			if against != "" {
				return checker.compare(against, files[0])
			}
			return checker.checkAll(files)
		},
	}
	cmd.Flags().StringVar(&against, "against", "", "the configuration file in force")
	cmd.Flags().BoolVar(&environment, "environment", false, "check also the files that the configuration names")
	return cmd
}

// stdin is the name that stands for the standard input.
const stdin = "-"

// checker checks files and prints what it finds.
type checker struct {
	in            io.Reader
	out, problems io.Writer
	environment   bool
}

func (c checker) checkAll(files []string) error {
	var failed error
	for _, name := range files {
		if _, err := c.check(name); err != nil {
			failed = err
			continue
		}
		fmt.Fprintf(c.out, "%s is valid\n", name)
	}
	return failed
}

func (c checker) compare(old, new string) error {
	before, errOld := c.check(old)
	after, errNew := c.check(new)
	if err := errors.Join(errOld, errNew); err != nil {
		return failure{err}
	}
	_, err := fmt.Fprint(c.out, config.NewPlan(before.Config, after.Config, runtime.Subjects(controllers.All())))
	return err
}

// check loads a file and prints its problems. The error it returns has been shown.
func (c checker) check(name string) (*config.Document, error) {
	document, err := c.load(name)
	if err != nil {
		fmt.Fprintln(c.problems, err)
		return nil, failure{err}
	}
	for _, w := range document.Warnings {
		fmt.Fprintln(c.problems, w)
	}
	return document, nil
}

func (c checker) load(name string) (*config.Document, error) {
	name, data, err := c.read(name)
	if err != nil {
		return nil, err
	}
	document, err := config.Load(name, data)
	if err != nil || !c.environment {
		return document, err
	}
	return document, document.CheckFiles().AsError()
}

// read returns the content of a file and its name in messages. It reads no more than a
// configuration may have.
func (c checker) read(name string) (shown string, data []byte, err error) {
	if name != stdin {
		data, _, err = source.Read(name, config.MaxFileBytes)
		return name, data, err
	}
	data, err = io.ReadAll(io.LimitReader(c.in, config.MaxFileBytes+1))
	if err != nil {
		return "", nil, fmt.Errorf("reading the standard input: %w", err)
	}
	return "stdin", data, nil
}
