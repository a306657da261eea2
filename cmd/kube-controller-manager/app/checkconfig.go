package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"kcmd.dev/pkg/cli/check"
	"kcmd.dev/pkg/cli/report"
	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/config/inputs"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/source"
)

// live stands for the configuration that a running process has in force, in --against.
const live = "live"

func newCheckConfig() *cobra.Command {
	c := &checkConfig{}
	cmd := &cobra.Command{
		Use:   "check-config FILE|DIR|-...",
		Short: "Check whether configurations are valid, and what an edit would restart",
		Long: `Validate configurations with the code that the running process uses.

Every problem is reported as file:line:column: field: message. A FILE is a configuration, or
a manifest whose ConfigMaps contain configurations: a single object, a List or a stream of
YAML documents, as kustomize and helm write them. Positions are then those in the manifest.
In a DIR, all *.yaml, *.yml and *.json files are checked; other documents are skipped and
counted. - is standard input. Configurations may have the version config.kcmd.dev/v1beta1 or
upstream's kubecontrollermanager.config.k8s.io/v1alpha1.

With --against OLD it prints what a running process would do if OLD were replaced: which
controllers start, stop and restart, because of which fields, and what applies in place. OLD
is a file, or "live" for the configuration that a running process has in force; the flags of
'status' define how to reach that process. If OLD is invalid, FILE is checked nevertheless, and
compared with what can be used of OLD.

The files that a configuration names are checked only with --environment, so that a
configuration can be checked on another machine.

Exit codes: 0 everything is valid, 1 there are problems, 2 invalid usage; with --exit-code, 3
everything is valid and the running process would change something.`,
		Example: `  kube-controller-manager check-config config.yaml
  kube-controller-manager check-config new.yaml --against config.yaml
  kube-controller-manager check-config new.yaml --against live --config /etc/kubernetes/kcm.yaml
  kube-controller-manager check-config config.yaml --against <(git show HEAD:config.yaml)
  kustomize build overlays/prod | kube-controller-manager check-config -
  kube-controller-manager check-config --output github --fail-on warning deploy/`,
		ValidArgsFunction: completeFiles,
		RunE:              c.run,
	}
	cmd.Flags().StringVar(&c.against, "against", "",
		"the configuration in force: a `FILE`, or live for that of a running process")
	cmd.Flags().BoolVar(&c.environment, "environment", false, "also check the files that the configurations name")
	cmd.Flags().StringVar(&c.failOn, "fail-on", string(problem.SeverityError),
		"least severity that makes the check fail: error or warning")
	complete(cmd, "fail-on", string(problem.SeverityError), string(problem.SeverityWarning))
	cmd.Flags().BoolVar(&c.exitCode, "exit-code", false,
		"exit with 3 if the running process would change anything; needs --against")
	c.output.add(cmd, "text", "json", "yaml", "github")
	c.color.add(cmd)
	c.connection.add(cmd)
	return cmd
}

// checkConfig is the command with its flags.
type checkConfig struct {
	against, failOn string
	environment     bool
	exitCode        bool
	output          outputFlag
	color           colorFlag
	connection      connectionFlags
}

func (c *checkConfig) run(cmd *cobra.Command, names []string) error {
	if err := notEmpty(cmd.Flags(), "against"); err != nil {
		return err
	}
	if err := c.sensible(names); err != nil {
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
		Finder:   inputs.Finder{Read: readFile, Stdin: cmd.InOrStdin()},
		Subjects: runtime.Subjects(controllers.All()), Files: c.environment, FailOn: failOn,
	}
	found, err := c.report(cmd.Context(), checker, names)
	if err != nil {
		return err
	}
	if err := c.show(cmd, found, colors); err != nil {
		return err
	}
	if !found.Valid {
		return failure{check.ErrFailed}
	}
	if c.exitCode && (found.Comparison == nil || !found.Comparison.Empty) {
		return errChanged
	}
	return nil
}

// sensible checks that arguments and flags can be combined.
func (c *checkConfig) sensible(names []string) error {
	if err := c.output.check(); err != nil {
		return err
	}
	switch {
	case len(names) == 0:
		return misuse{errors.New("check-config needs a FILE")}
	case c.exitCode && c.against == "":
		return misuse{errors.New("--exit-code needs --against")}
	case c.against != "" && len(names) > 1:
		return misuse{errors.New("--against takes one FILE, not several")}
	case inputs.IsStdin(c.against) && slices.ContainsFunc(names, inputs.IsStdin):
		return misuse{errors.New("FILE and --against cannot both be the standard input")}
	case c.against == live:
		return nil
	}
	return c.connection.need("--against " + live)
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

func (c *checkConfig) show(cmd *cobra.Command, found *check.Report, colors terminal.Colors) error {
	out := cmd.OutOrStdout()
	var text bytes.Buffer
	switch c.output.format {
	case "json":
		return report.JSON(out, found)
	case "yaml":
		return report.YAML(out, found)
	case "github":
		found.GitHub(&text)
	default:
		found.Text(&text, cmd.ErrOrStderr(), colors)
	}
	_, err := out.Write(text.Bytes())
	return err
}

// readFile reads a file as the process does, except for the limit: a manifest may be larger
// than a configuration. Unlike the process it also reads pipes, which a shell makes of
// <(COMMAND).
func readFile(name string) ([]byte, error) {
	if info, err := os.Stat(name); err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0 {
		return readPipe(name)
	}
	data, _, err := source.Read(name, inputs.MaxFileBytes)
	var large *source.TooLargeError
	if errors.As(err, &large) {
		return nil, errTooLarge
	}
	return data, err
}

var errTooLarge = fmt.Errorf("is larger than %d bytes", inputs.MaxFileBytes)

// readPipe reads a file that has no size and can be read once.
func readPipe(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, inputs.MaxFileBytes+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if len(data) > inputs.MaxFileBytes {
		return nil, errTooLarge
	}
	return data, nil
}
