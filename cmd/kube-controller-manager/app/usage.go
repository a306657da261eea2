package app

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/upstream/conversion"
)

// misuse marks errors in the use of the command line.
type misuse struct{ error }

// usageOf returns the command whose --help is of use after an error of a command.
func usageOf(cmd *cobra.Command) *cobra.Command {
	if cmd.Name() == helpName {
		return cmd.Root()
	}
	return cmd
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misuse{unknownCommand(cmd, args[0])}
	}
	return nil
}

// noFile is noArguments of the program itself, which may have been given its file without the flag.
func noFile(cmd *cobra.Command, args []string) error {
	err := noArguments(cmd, args)
	if err == nil {
		return nil
	}
	if info, statErr := os.Stat(args[0]); statErr == nil && !info.IsDir() {
		return misuse{fmt.Errorf("%w, did you mean --config %s?", err, args[0])}
	}
	return err
}

// unknownCommand is the error about an argument where only a command can be.
func unknownCommand(cmd *cobra.Command, name string) error {
	text := fmt.Sprintf("%q is neither a command nor a flag of %q", name, cmd.CommandPath())
	if best := problem.Nearest(name, commandNames(cmd)); best != "" {
		text += fmt.Sprintf(", did you mean %q?", best)
	}
	return errors.New(text)
}

// needsSubcommand is the action of a command that only has subcommands.
func needsSubcommand(cmd *cobra.Command, _ []string) error {
	return misuse{fmt.Errorf("%q needs a subcommand: %s", cmd.CommandPath(), strings.Join(commandNames(cmd), ", "))}
}

// commandNames are the names of the subcommands.
func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// flagError completes the error about a flag with what was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return misuse{err}
	}
	name := unknown.GetSpecifiedName()
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if best := problem.Nearest(name, names); best != "" {
		return misuse{fmt.Errorf("%w, did you mean --%s?", err, best)}
	}
	if isUpstreamFlag(name) {
		return misuse{fmt.Errorf("%w, which is a flag of upstream: '%s config from-flags' converts flags to a configuration",
			err, cmd.Root().Name())}
	}
	return misuse{err}
}

// isUpstreamFlag reports whether upstream's kube-controller-manager has, or had, a flag.
func isUpstreamFlag(name string) bool {
	name = strings.ReplaceAll(name, "_", "-")
	_, known := conversion.Flag(name)
	_, removed := conversion.RemovedFlag(name)
	return known || removed
}

const helpName = "help"

// newHelp replaces the command of the library, which succeeds for commands that do not exist.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   helpName + " [COMMAND...]",
		Short: "Show the help of a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			about, err := subcommand(cmd.Root(), args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return commandNames(about), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, err := subcommand(cmd.Root(), args)
			if err != nil {
				return misuse{err}
			}
			about.InitDefaultHelpFlag() // which the library adds to the command that it runs
			return about.Help()
		},
	}
}

// subcommand follows the names of commands.
func subcommand(cmd *cobra.Command, names []string) (*cobra.Command, error) {
	for _, name := range names {
		next := cmd
		for _, c := range cmd.Commands() {
			if c.Name() == name || c.HasAlias(name) {
				next = c
			}
		}
		if next == cmd {
			return nil, unknownCommand(cmd, name)
		}
		cmd = next
	}
	return cmd, nil
}

// addCompletion adds the command of the library, which succeeds for shells that it does not know.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, err := subcommand(root, []string{"completion"})
	if err != nil {
		panic(err) // it has just been added
	}
	completion.RunE = needsSubcommand
	completion.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return misuse{fmt.Errorf("there is no completion for the shell %q, only for %s",
				args[0], strings.Join(commandNames(cmd), ", "))}
		}
		return nil
	}
	for _, shell := range completion.Commands() {
		shell.Args = noArguments
	}
}
