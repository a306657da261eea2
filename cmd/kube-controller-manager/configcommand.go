package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kcmd.dev/pkg/cli/explain"
	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/cli/sample"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/schemas"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Explains, writes and converts configurations",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return misuse{fmt.Errorf("%q needs one of its commands: %s", cmd.CommandPath(), strings.Join(commandNames(cmd), ", "))}
		},
	}
	cmd.AddCommand(newConvert(), newExplain(), newFromFlags(), newPrintDefaults(), newSchema())
	return cmd
}

func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return names
}

func newExplain() *cobra.Command {
	var recursive bool
	var color colorFlag
	cmd := &cobra.Command{
		Use:   "explain [PATH]",
		Short: "Tells what a field is for, what it may hold, and what a change of it restarts",
		Long: `Tells about a field of the configuration: its type, its default, what it may hold, what it is
for, and what a change of it does to a running process. The last is worked out by the code
that carries it out.

PATH is as in messages: controllers.deployment-controller.concurrentSyncs. Without it, the
fields at the top are listed. A controller may be given by the name it had in older releases.`,
		Example: `  kube-controller-manager config explain
  kube-controller-manager config explain controllers
  kube-controller-manager config explain controllers.deployment.concurrentSyncs
  kube-controller-manager config explain serving --recursive`,
		Args:              atMostOne("PATH"),
		ValidArgsFunction: completeArgs(fieldPaths),
		RunE: func(cmd *cobra.Command, args []string) error {
			colors, err := color.colors(cmd)
			if err != nil {
				return err
			}
			field, err := findField(append(args, "")[0])
			if err != nil {
				return err
			}
			return explain.Explainer{Out: cmd.OutOrStdout(), Subjects: runtime.Subjects(controllers.All()), Colors: colors}.Explain(field, recursive)
		},
	}
	cmd.Flags().BoolVar(&recursive, "recursive", false, "list the fields of all blocks below, too")
	color.add(cmd)
	return cmd
}

// findField finds a field; that there is none is a mistake in the command line.
func findField(path string) (*fields.Field, error) {
	tree, err := fields.Tree()
	if err != nil {
		return nil, err
	}
	field, err := tree.Find(path)
	var unknown *fields.UnknownError
	if errors.As(err, &unknown) {
		return nil, misuse{err}
	}
	return field, err
}

// fieldPaths completes PATH.
func fieldPaths() []string {
	tree, err := fields.Tree()
	if err != nil {
		return nil
	}
	return tree.Paths()
}

// controllerBlocks completes the names of controllers with a block.
func controllerBlocks() []string {
	block, err := findField("controllers")
	if err != nil {
		return nil
	}
	var names []string
	for _, f := range block.Fields {
		names = append(names, f.Name)
	}
	return names
}

func newPrintDefaults() *cobra.Command {
	var options sample.Options
	cmd := &cobra.Command{
		Use:   "print-defaults",
		Short: "Prints a configuration with the default of every field",
		Long: `Prints a configuration with the default of every field. It means the same as an empty one,
and is a file to start from: what is not changed can be removed.`,
		Example: `  kube-controller-manager config print-defaults
  kube-controller-manager config print-defaults --full > config.yaml
  kube-controller-manager config print-defaults --full --controller garbage-collector-controller`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if options.Controller != "" {
				field, err := findField("controllers." + options.Controller)
				if err != nil {
					return err
				}
				options.Controller = field.Name
			}
			tree, err := fields.Tree()
			if err != nil {
				return err
			}
			text, err := sample.Write(tree, options)
			if err != nil {
				return err
			}
			fmt.Fprint(cmd.OutOrStdout(), text)
			return nil
		},
	}
	cmd.Flags().BoolVar(&options.Full, "full", false, "add what has no default, commented out, and a comment on every field")
	cmd.Flags().StringVar(&options.Controller, "controller", "", "only the block of the controller of this `NAME`")
	completeFunc(cmd, "controller", controllerBlocks)
	return cmd
}

func newSchema() *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Prints the JSON Schema of the configuration, for editors",
		Long: `Prints the JSON Schema of the configuration, for editors: of our own version, or with
--version v1alpha1 of upstream's kubecontrollermanager.config.k8s.io/v1alpha1, of which files
are read too.`,
		Example: `  kube-controller-manager config schema > config.schema.json
  # and in the configuration: # yaml-language-server: $schema=config.schema.json
  kube-controller-manager config schema --version v1alpha1`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			schema, err := schemas.Read(version)
			if err != nil {
				return misuse{err}
			}
			_, err = cmd.OutOrStdout().Write(schema)
			return err
		},
	}
	cmd.Flags().StringVar(&version, "version", fields.Version, "version of the configuration: "+strings.Join(schemas.Versions(), ", "))
	completeFunc(cmd, "version", schemas.Versions)
	return cmd
}

// exactlyOne accepts one argument.
func exactlyOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return misuse{fmt.Errorf("%q takes one %s, not %d", cmd.CommandPath(), what, len(args))}
		}
		return nil
	}
}

// atMostOne accepts one argument, or none.
func atMostOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return misuse{fmt.Errorf("%q takes one %s, not %d", cmd.CommandPath(), what, len(args))}
		}
		return nil
	}
}
