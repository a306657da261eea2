package app

import (
	"bytes"
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
		Short: "View, compare, explain, print and convert configurations",
		Args:  noArguments,
		RunE:  needsSubcommand,
	}
	cmd.AddCommand(newConvert(), newDiff(), newExplain(), newFromFlags(), newPrintDefaults(), newSchema(), newView())
	return cmd
}

func newExplain() *cobra.Command {
	var recursive bool
	var color colorFlag
	cmd := &cobra.Command{
		Use:   "explain [PATH]",
		Short: "Explain a field: its purpose, its allowed values, and what a change of it restarts",
		Long: `Explain a field of the configuration: its type, default, allowed values and purpose, and what a
change of it does in a running process. The effect of a change is computed by the code that
applies changes.

PATH has the form that messages use: controllers.deployment-controller.concurrentSyncs.
Without PATH, the top-level fields are listed. Former names of controllers are accepted.`,
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
			var text bytes.Buffer
			explainer := explain.Explainer{Out: &text, Subjects: runtime.Subjects(controllers.All()), Colors: colors}
			if err := explainer.Explain(field, recursive); err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text.Bytes())
			return err
		},
	}
	cmd.Flags().BoolVar(&recursive, "recursive", false, "also list the fields of all nested blocks")
	color.add(cmd)
	return cmd
}

// findField finds a field; an unknown field is invalid usage.
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

// controllerBlocks completes the names of controllers that have a block.
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
		Short: "Print a configuration with the default of every field",
		Long: `Print a configuration with the default of every field. It is equivalent to an empty one and can
be used as a starting point: fields that are not changed can be removed.`,
		Example: `  kube-controller-manager config print-defaults
  kube-controller-manager config print-defaults --full > config.yaml
  kube-controller-manager config print-defaults --full --controller garbage-collector-controller`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd.Flags(), "controller"); err != nil {
				return err
			}
			if options.Controller != "" {
				field, err := findField("controllers." + options.Controller)
				if err != nil {
					return err
				}
				if field.Path != "controllers."+field.Name {
					return misuse{fmt.Errorf("there is no controller %q", options.Controller)}
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
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().BoolVar(&options.Full, "full", false,
		"add a comment on every field, and the fields without a default, commented out")
	cmd.Flags().StringVar(&options.Controller, "controller", "", "print only the block of the controller `NAME`")
	completeFunc(cmd, "controller", controllerBlocks)
	return cmd
}

func newSchema() *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration, for editors",
		Long: `Print the JSON Schema of the configuration, for editors: that of config.kcmd.dev/v1beta1, or
with --version v1alpha1 that of upstream's kubecontrollermanager.config.k8s.io/v1alpha1, which
is accepted too.`,
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
	cmd.Flags().StringVar(&version, "version", fields.Version,
		"version of the configuration: "+strings.Join(schemas.Versions(), ", "))
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

// atMostOne accepts at most one argument.
func atMostOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return misuse{fmt.Errorf("%q takes one %s, not %d", cmd.CommandPath(), what, len(args))}
		}
		return nil
	}
}
