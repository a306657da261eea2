package app

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/fromflags"
	"kcmd.dev/pkg/config/inputs"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/upstream"
	"kcmd.dev/pkg/config/upstream/conversion"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/plain"
)

func newConvert() *cobra.Command {
	return &cobra.Command{
		Use:   "convert FILE",
		Short: "Convert a configuration of any version to " + v1beta1.APIVersion,
		Long: `Convert a configuration of any version to ` + v1beta1.APIVersion + ` and print it, with its
comments. FILE is a configuration, a manifest whose ConfigMap contains one, or the output of
/configz of upstream's kube-controller-manager or of this one; - is standard input. Changes in
behaviour are reported on standard error. A configuration that already has this version is
printed unchanged.`,
		Example: `  kube-controller-manager config convert v1alpha1.yaml > config.yaml
  curl -sk -H "Authorization: Bearer $TOKEN" https://localhost:10257/configz | kube-controller-manager config convert -`,
		Args: exactlyOne("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := findOne(cmd, args[0])
			if err != nil {
				return err
			}
			out, notes, err := convert(in)
			return printConverted(cmd, out, notes, err)
		},
	}
}

// findOne finds the one configuration that an argument leads to.
func findOne(cmd *cobra.Command, name string) (inputs.Input, error) {
	found := inputs.Finder{Read: readFile, Stdin: cmd.InOrStdin()}.Find(name)
	if err := found.Problems.AsError(); err != nil {
		return inputs.Input{}, err
	}
	if len(found.Inputs) != 1 {
		return inputs.Input{}, fmt.Errorf("%s contains %d configurations: %s takes one at a time",
			name, len(found.Inputs), cmd.Name())
	}
	return found.Inputs[0], nil
}

// convert converts a configuration to v1beta1.
func convert(in inputs.Input) ([]byte, []upstream.Note, error) {
	if in.APIVersion() == v1beta1.APIVersion {
		document, problems := in.Load()
		if document == nil {
			return nil, nil, problems.AsError()
		}
		return in.Data, nil, nil
	}
	if config.IsOwnConfigz(in.Data) {
		document, problems := in.Load()
		if document == nil {
			return nil, nil, problems.AsError()
		}
		out, err := conversion.File{Config: document.Config}.Bytes()
		return out, nil, err
	}
	out, notes, err := upstream.ConvertFile(in.File, in.Data)
	var problems problem.Errors
	if errors.As(err, &problems) {
		err = in.Place(problems)
	}
	return out, notes, err
}

func newFromFlags() *cobra.Command {
	var manifest, commandLine string
	cmd := &cobra.Command{
		Use:   "from-flags [--manifest FILE | --command-line FILE | -- ARGS...]",
		Short: "Convert the flags of upstream's kube-controller-manager to a configuration",
		Long: `Convert the flags of upstream's kube-controller-manager to a configuration and print it. The
flags come from a pod manifest, from a file with a command line, or follow --. The
configuration contains only what differs from the defaults. Changes in behaviour, and flags
that have no effect on the configuration, are reported on standard error. - is standard input.`,
		Example: `  kube-controller-manager config from-flags --manifest /etc/kubernetes/manifests/kube-controller-manager.yaml > config.yaml
  kube-controller-manager config from-flags --command-line /etc/systemd/system/kube-controller-manager.service
  kube-controller-manager config from-flags -- --leader-elect=true --concurrent-deployment-syncs=10`,
		RunE: func(cmd *cobra.Command, args []string) error {
			result, err := fromFlags(cmd, manifest, commandLine, args)
			if err != nil {
				return err
			}
			return printConverted(cmd, result.File, result.Notes, nil)
		},
	}
	cmd.Flags().StringVar(&manifest, "manifest", "",
		"`FILE` with a Pod, Deployment, DaemonSet or StatefulSet, or a List of those")
	cmd.Flags().StringVar(&commandLine, "command-line", "",
		"`FILE` with a command line: a systemd unit, /proc/<pid>/cmdline, or the output of ps")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var unknown *pflag.NotExistError
		if errors.As(err, &unknown) && isUpstreamFlag(unknown.GetSpecifiedName()) {
			return misuse{fmt.Errorf("%w: write the flags to convert after --", err)}
		}
		return flagError(cmd, err)
	})
	return cmd
}

func fromFlags(cmd *cobra.Command, manifest, commandLine string, args []string) (*fromflags.Result, error) {
	if err := notEmpty(cmd.Flags(), "manifest", "command-line"); err != nil {
		return nil, err
	}
	given := 0
	for _, is := range []bool{manifest != "", commandLine != "", len(args) > 0 || cmd.ArgsLenAtDash() >= 0} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, misuse{errors.New("from-flags needs either --manifest FILE, --command-line FILE, or flags after --")}
	case len(args) > 0 && cmd.ArgsLenAtDash() != 0:
		return nil, misuse{fmt.Errorf("%q is not a flag: write the flags to convert after --", args[0])}
	case manifest != "":
		data, err := readInput(cmd, manifest)
		if err != nil {
			return nil, err
		}
		result, err := fromflags.FromManifest(data)
		return result, about(manifest, err)
	case commandLine != "":
		data, err := readInput(cmd, commandLine)
		if err != nil {
			return nil, err
		}
		result, err := fromflags.FromCommandLine(string(data))
		return result, about(commandLine, err)
	}
	return fromflags.Convert(args)
}

// about adds the file to an error about its content; errors of several lines follow it on lines of their own.
func about(name string, err error) error {
	if err == nil {
		return nil
	}
	if inputs.IsStdin(name) {
		name = "standard input"
	}
	if strings.Contains(err.Error(), "\n") {
		return fmt.Errorf("%s:\n%w", name, err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// readInput reads a file that is not a configuration, or standard input. The file may have
// no size, as those of /proc.
func readInput(cmd *cobra.Command, name string) ([]byte, error) {
	if !inputs.IsStdin(name) {
		data, err := readFile(name)
		if errors.Is(err, errTooLarge) {
			err = fmt.Errorf("%s %w", name, err)
		}
		return data, err
	}
	data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), inputs.MaxFileBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading standard input: %w", err)
	case len(data) > inputs.MaxFileBytes:
		return nil, fmt.Errorf("standard input %w", errTooLarge)
	}
	return data, nil
}

// printConverted prints the file to standard output, and the notes to standard error.
func printConverted(cmd *cobra.Command, file []byte, notes []upstream.Note, err error) error {
	if err != nil {
		return err
	}
	for _, note := range notes {
		word := "note"
		if note.Important {
			word = "IMPORTANT"
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", word, plain.Text(strings.ReplaceAll(note.String(), "\n", " ")))
	}
	_, err = cmd.OutOrStdout().Write(file)
	return err
}
