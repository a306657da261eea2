package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"kcmd.dev/pkg/cli/controllerlist"
	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/controllers"
)

func newControllers() *cobra.Command {
	var ask bool
	var connection connectionFlags
	var output outputFlag
	var color colorFlag
	cmd := &cobra.Command{
		Use:   "controllers [NAME...]",
		Short: "Lists the controllers, and what each of them is doing in a running process",
		Long: `Lists the controllers of Kubernetes: the name, former names, whether it runs unless the
configuration says otherwise and whether it is in this build, the feature gate that it needs
with the default of that, and what it does. With --live also what it is doing now, in the
process that the flags of 'status' lead to. NAME is a name or a former one.`,
		Example: `  kube-controller-manager controllers
  kube-controller-manager controllers podgc nodelifecycle --output wide
  kube-controller-manager controllers --live --config /etc/kubernetes/kcm.yaml`,
		ValidArgsFunction: completeArgs(func() []string {
			list, err := controllerList()
			if err != nil {
				return nil
			}
			return list.Names(false)
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
			if ask {
				client, err := connection.open()
				if err != nil {
					return err
				}
				status, _, err := client.Status(background(cmd.Context()))
				if err != nil {
					return err
				}
				list.AddStatus(status.Controllers)
			}
			if err := selectControllers(list, names); err != nil {
				return err
			}
			switch output.format {
			case "json":
				return list.JSON(cmd.OutOrStdout())
			case "yaml":
				return list.YAML(cmd.OutOrStdout())
			}
			return list.Text(cmd.OutOrStdout(), output.format == "wide", colors)
		},
	}
	cmd.Flags().BoolVar(&ask, "live", false, "show what a running process does")
	output.add(cmd, "text", "wide", "json", "yaml")
	color.add(cmd)
	connection.add(cmd)
	return cmd
}

func controllerList() (*controllerlist.List, error) {
	tree, err := fields.Tree()
	if err != nil {
		return nil, err
	}
	return controllerlist.New(controllers.All(), tree), nil
}

// selectControllers leaves in the list what was asked for.
func selectControllers(list *controllerlist.List, names []string) error {
	if len(names) == 0 {
		return nil
	}
	known := list.Names(true)
	for _, name := range names {
		if slices.Contains(known, name) {
			continue
		}
		if best := config.Nearest(name, known); best != "" {
			return misuse{fmt.Errorf("there is no controller %q, did you mean %s?", name, best)}
		}
		return misuse{fmt.Errorf("there is no controller %q", name)}
	}
	list.Items = slices.DeleteFunc(list.Items, func(e controllerlist.Entry) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return name == e.Name || slices.Contains(e.Aliases, name) })
	})
	return nil
}
