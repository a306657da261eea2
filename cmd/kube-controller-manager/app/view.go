package app

import (
	"fmt"

	"github.com/spf13/cobra"

	"kcmd.dev/pkg/cli/effective"
	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/cli/report"
	"kcmd.dev/pkg/config/inputs"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
)

func newView() *cobra.Command {
	var output outputFlag
	var color colorFlag
	cmd := &cobra.Command{
		Use:   "view FILE|-",
		Short: "Print a configuration as the process understands it",
		Long: `Print a configuration as the process understands it: with the default of every field that is
not set, with anchors, aliases and merge keys resolved, and converted if it has upstream's
version. Each value is followed by the line that sets it, or by "default". A field that is not
set and follows another one is in a comment, with the value that it stands for.

FILE is a configuration, or a manifest whose ConfigMap contains one; - is standard input. The
output is a configuration with the same meaning, and the same hash, as FILE. In JSON and YAML
it is an object with the fields configuration, origins and inherited.`,
		Example: `  kube-controller-manager config view config.yaml
  kube-controller-manager config view -o json config.yaml | jq .configuration.leaderElection
  kustomize build overlays/prod | kube-controller-manager config view -`,
		Args:              exactlyOne("FILE"),
		ValidArgsFunction: completeFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.check(); err != nil {
				return err
			}
			colors, err := color.colors(cmd)
			if err != nil {
				return err
			}
			loaded, err := loadOne(cmd, args[0])
			if err != nil {
				return err
			}
			tree, err := fields.Tree()
			if err != nil {
				return err
			}
			view, err := effective.NewView(loaded, tree, runtime.Subjects(controllers.All()))
			if err != nil {
				return err
			}
			switch output.format {
			case "json":
				return report.JSON(cmd.OutOrStdout(), view)
			case "yaml":
				return report.YAML(cmd.OutOrStdout(), view)
			}
			return view.Text(cmd.OutOrStdout(), colors)
		},
	}
	output.add(cmd, "text", "json", "yaml")
	color.add(cmd)
	return cmd
}

func newDiff() *cobra.Command {
	var output outputFlag
	var color colorFlag
	var exitCode bool
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Print the fields in which two configurations differ",
		Long: `Print the fields in which two configurations differ for the process, with both values and where
each of them comes from. Comments, the order of fields, anchors and defaults that are written
out make no difference. What a running process does because of the difference is printed by
'check-config NEW --against OLD'.

OLD and NEW are configurations, or manifests whose ConfigMap contains one; - is standard input.

Exit codes: 0 success, 1 a configuration is invalid, 2 invalid usage; with --exit-code, 3 the
configurations differ.`,
		Example: `  kube-controller-manager config diff old.yaml new.yaml
  kube-controller-manager config diff --exit-code <(git show HEAD:config.yaml) config.yaml`,
		Args:              oldAndNew,
		ValidArgsFunction: completeFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.check(); err != nil {
				return err
			}
			colors, err := color.colors(cmd)
			if err != nil {
				return err
			}
			before, err := loadOne(cmd, args[0])
			if err != nil {
				return err
			}
			after, err := loadOne(cmd, args[1])
			if err != nil {
				return err
			}
			diff := effective.NewDiff(before, after)
			switch output.format {
			case "json":
				err = report.JSON(cmd.OutOrStdout(), diff)
			case "yaml":
				err = report.YAML(cmd.OutOrStdout(), diff)
			default:
				err = diff.Text(cmd.OutOrStdout(), colors)
			}
			if err == nil && exitCode && !diff.Empty {
				return errChanged
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 3 if the configurations differ")
	output.add(cmd, "text", "json", "yaml")
	color.add(cmd)
	return cmd
}

func oldAndNew(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) != 2:
		return misuse{fmt.Errorf("%q takes OLD and NEW, not %d arguments", cmd.CommandPath(), len(args))}
	case inputs.IsStdin(args[0]) && inputs.IsStdin(args[1]):
		return misuse{fmt.Errorf("OLD and NEW cannot both be the standard input")}
	}
	return nil
}

// loadOne loads the one configuration that an argument leads to. Its warnings are shown.
func loadOne(cmd *cobra.Command, name string) (effective.Loaded, error) {
	in, err := findOne(cmd, name)
	if err != nil {
		return effective.Loaded{}, err
	}
	document, problems := in.Load()
	if err := problems.AsError(); err != nil {
		return effective.Loaded{}, err
	}
	for _, p := range problems {
		fmt.Fprintln(cmd.ErrOrStderr(), p)
	}
	return effective.Loaded{Input: in, Document: document}, nil
}

// completeFiles completes the names of files.
func completeFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}
