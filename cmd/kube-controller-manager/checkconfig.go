package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"kcmd.dev/pkg/cli/check"
	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/sources"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/source"
)

// live is what --against calls the configuration that a running process has in force.
const live = "live"

func newCheckConfig() *cobra.Command {
	c := &checkConfig{}
	cmd := &cobra.Command{
		Use:   "check-config FILE|DIR|-...",
		Short: "Says whether configurations are valid, and what an edit would restart",
		Long: `Validates configurations with the code that the running process uses.

Every problem is reported, as file:line:column: field: message. A FILE is a configuration, or
a manifest in whose ConfigMaps there are some, alone, in a List or in a stream of YAML
documents, such as kustomize and helm write; positions are then those of the manifest. In a
DIR all *.yaml, *.yml and *.json are looked at, and what is something else is counted. - is
the standard input. The versions are config.kcmd.dev/v1beta1 and upstream's
kubecontrollermanager.config.k8s.io/v1alpha1.

With --against OLD it prints what a running process would do when OLD is replaced: which
controllers start, stop and restart, because of which fields, and what applies in place. OLD
is a file, or the word live for the configuration that a running process has in force; the
flags of 'status' say how to reach it.

The files that a configuration names are only looked at with --environment, so that it can
be checked where it does not run.

Exit codes: 0 everything is valid, 1 there are problems, 2 the command line makes no sense.`,
		Example: `  kube-controller-manager check-config config.yaml
  kube-controller-manager check-config new.yaml --against config.yaml
  kube-controller-manager check-config new.yaml --against live --config /etc/kubernetes/kcm.yaml
  kustomize build overlays/prod | kube-controller-manager check-config -
  kube-controller-manager check-config --output github --fail-on warning deploy/`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: c.run,
	}
	cmd.Flags().StringVar(&c.against, "against", "", "the configuration in force: a `FILE`, or live for that of a running process")
	cmd.Flags().BoolVar(&c.environment, "environment", false, "check also the files that the configurations name")
	cmd.Flags().StringVar(&c.failOn, "fail-on", string(config.SeverityError), "what makes the check fail: error or warning")
	complete(cmd, "fail-on", string(config.SeverityError), string(config.SeverityWarning))
	c.output.add(cmd, "text", "json", "yaml", "github")
	c.color.add(cmd)
	c.connection.add(cmd)
	return cmd
}

// checkConfig is the command with its flags.
type checkConfig struct {
	against, failOn string
	environment     bool
	output          outputFlag
	color           colorFlag
	connection      connectionFlags
}

func (c *checkConfig) run(cmd *cobra.Command, names []string) error {
	if err := c.sensible(cmd, names); err != nil {
		return err
	}
	colors, err := c.color.colors(cmd)
	if err != nil {
		return err
	}
	failOn, err := check.ParseFailOn(c.failOn)
	if err != nil {
		return misuse{fmt.Errorf("--fail-on %w", err)}
	}
	checker := check.Checker{
		Finder:   sources.Finder{Read: readFile, Stdin: cmd.InOrStdin()},
		Subjects: runtime.Subjects(controllers.All()), Files: c.environment, FailOn: failOn,
	}
	report, err := c.report(cmd.Context(), checker, names)
	if err != nil {
		return err
	}
	if err := c.show(cmd, report, colors); err != nil {
		return err
	}
	if !report.Valid {
		return failure{check.ErrFailed}
	}
	return nil
}

// sensible checks what goes together.
func (c *checkConfig) sensible(cmd *cobra.Command, names []string) error {
	if err := c.output.check(); err != nil {
		return err
	}
	switch {
	case len(names) == 0:
		return misuse{errors.New("check-config needs a FILE")}
	case c.against != "" && len(names) > 1:
		return misuse{errors.New("--against compares with one FILE, not with several")}
	case c.against == sources.Stdin && slices.Contains(names, sources.Stdin):
		return misuse{errors.New("there is one standard input: FILE and --against cannot both be -")}
	case c.against == live:
		return nil
	}
	for _, name := range c.connection.names() {
		if cmd.Flags().Changed(name) {
			return misuse{fmt.Errorf("--%s is for --against %s", name, live)}
		}
	}
	return nil
}

func (c *checkConfig) report(ctx context.Context, checker check.Checker, names []string) (*check.Report, error) {
	switch c.against {
	case "":
		return checker.Check(names), nil
	case live:
		client, err := c.connection.open()
		if err != nil {
			return nil, err
		}
		inForce, err := client.Config(background(ctx))
		if err != nil {
			return nil, err
		}
		return checker.Compare(names[0], check.Against{Name: client.Server, Config: inForce}), nil
	}
	return checker.Compare(names[0], check.Against{Name: c.against}), nil
}

func (c *checkConfig) show(cmd *cobra.Command, report *check.Report, colors terminal.Colors) error {
	out := cmd.OutOrStdout()
	switch c.output.format {
	case "json":
		return report.JSON(out)
	case "yaml":
		return report.YAML(out)
	case "github":
		report.GitHub(out)
	default:
		report.Text(out, cmd.ErrOrStderr(), colors)
	}
	return nil
}

// readFile reads a file as the process does, but for the limit: a manifest may be larger
// than a configuration.
func readFile(name string) ([]byte, error) {
	data, _, err := source.Read(name, sources.MaxFileBytes)
	var large *source.TooLargeError
	if errors.As(err, &large) {
		return nil, fmt.Errorf("is larger than %d bytes", large.Limit)
	}
	return data, err
}
