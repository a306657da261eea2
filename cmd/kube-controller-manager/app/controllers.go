package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"kcmd.dev/pkg/cli/controllerlist"
	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/cli/report"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/controllers"
)

func newControllers() *cobra.Command {
	var withState bool
	var connection connectionFlags
	var output outputFlag
	var color colorFlag
	cmd := &cobra.Command{
		Use:   "controllers [NAME...]",
		Short: "List the controllers, and their state in a running process",
		Long: `List the controllers of Kubernetes: the name, former names, whether the controller runs by
default and whether it is in this build, the feature gate that it needs with the default of
the gate, and what the controller does. With --live, also list its state in a running process;
the flags of 'status' define how to reach it. NAME is a name or a former name.`,
		Example: `  kube-controller-manager controllers
  kube-controller-manager controllers podgc nodelifecycle --output wide
  kube-controller-manager controllers --live --config /etc/kubernetes/kcm.yaml`,
		ValidArgsFunction: completeArgs(func() []string {
			list, err := controllerList()
			if err != nil {
				return nil
			}
			return list.Names()
		}),
		RunE: func(cmd *cobra.Command, names []string) error {
			colors, err := color.colors(cmd)
			if err != nil {
				return err
			}
			list, err := controllerList()
			if err != nil {
				return err
			}
			if err := output.check(); err != nil {
				return err
			}
			if withState {
				err = addStatus(cmd.Context(), list, &connection)
			} else {
				err = connection.need("--live")
			}
			if err != nil {
				return err
			}
			if err := selectControllers(list, names); err != nil {
				return err
			}
			switch output.format {
			case "json":
				return report.JSON(cmd.OutOrStdout(), list)
			case "yaml":
				return report.YAML(cmd.OutOrStdout(), list)
			}
			return list.Text(cmd.OutOrStdout(), output.format == "wide", colors)
		},
	}
	cmd.Flags().BoolVar(&withState, "live", false, "also show the state in a running process")
	output.add(cmd, "text", "wide", "json", "yaml")
	color.add(cmd)
	connection.add(cmd)
	return cmd
}

// addStatus adds the state of a running process.
func addStatus(ctx context.Context, list *controllerlist.List, connection *connectionFlags) error {
	client, err := connection.open()
	if err != nil {
		return err
	}
	status, _, err := client.Status(background(ctx))
	if err != nil {
		return err
	}
	list.AddStatus(status.Controllers)
	return nil
}

func controllerList() (*controllerlist.List, error) {
	tree, err := fields.Tree()
	if err != nil {
		return nil, err
	}
	return controllerlist.New(controllers.All(), tree), nil
}

// selectControllers removes all other controllers from the list.
func selectControllers(list *controllerlist.List, names []string) error {
	if len(names) == 0 {
		return nil
	}
	known := list.NamesAndAliases()
	for _, name := range names {
		if slices.Contains(known, name) {
			continue
		}
		if best := problem.Nearest(name, known); best != "" {
			return misuse{fmt.Errorf("there is no controller %q, did you mean %s?", name, best)}
		}
		return misuse{fmt.Errorf("there is no controller %q", name)}
	}
	list.Items = slices.DeleteFunc(list.Items, func(e controllerlist.Entry) bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			return name == e.Name || slices.Contains(e.Aliases, name)
		})
	})
	return nil
}
