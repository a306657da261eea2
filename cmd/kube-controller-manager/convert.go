package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/fromflags"
	"kcmd.dev/pkg/config/sources"
	"kcmd.dev/pkg/config/upstream"
	"kcmd.dev/pkg/config/v1beta1"
)

func newConvert() *cobra.Command {
	return &cobra.Command{
		Use:   "convert FILE",
		Short: "Converts a configuration of any version to " + v1beta1.APIVersion,
		Long: `Converts a configuration of any version to ` + v1beta1.APIVersion + ` and prints it, with
its comments. FILE is a configuration, a manifest whose ConfigMap carries one, or what a
kube-controller-manager of upstream answers under /configz; - is the standard input. What will
not be as it was is told on the standard error. A configuration that has the version already is
printed as it is.`,
		Example: `  kube-controller-manager config convert v1alpha1.yaml > config.yaml
  kubectl get --raw /api/v1/namespaces/kube-system/pods/https:kube-controller-manager-host:10257/proxy/configz |
    kube-controller-manager config convert -`,
		Args: exactlyOne("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			finder := sources.Finder{Read: readFile, Stdin: cmd.InOrStdin()}
			found := finder.Find(args[0])
			if err := found.Problems.AsError(); err != nil {
				return err
			}
			if len(found.Inputs) != 1 {
				return fmt.Errorf("%s holds %d configurations: convert one at a time", args[0], len(found.Inputs))
			}
			out, notes, err := convert(found.Inputs[0])
			return printConverted(cmd, out, notes, err)
		},
	}
}

// convert returns a configuration in our version.
func convert(in sources.Input) ([]byte, []upstream.Note, error) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(in.Data, &kind); err == nil && kind.APIVersion == v1beta1.APIVersion {
		_, problems := in.Load()
		return in.Data, nil, problems.AsError()
	}
	out, notes, err := upstream.ConvertFile(in.File, in.Data)
	var problems config.Errors
	if errors.As(err, &problems) {
		err = in.Place(problems)
	}
	return out, notes, err
}

func newFromFlags() *cobra.Command {
	var manifest, commandLine string
	cmd := &cobra.Command{
		Use:   "from-flags [--manifest FILE | --command-line FILE | -- ARGS...]",
		Short: "Makes a configuration from the flags of upstream's kube-controller-manager",
		Long: `Makes a configuration from the flags of upstream's kube-controller-manager and prints it: from
a manifest with its pod, from a file with its command line, or from what follows --. It says
only what differs from the defaults. What will not be as it was, and flags that leave no trace,
are told on the standard error. - is the standard input.`,
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
	cmd.Flags().StringVar(&manifest, "manifest", "", "`FILE` with the pod, or the Deployment, DaemonSet or StatefulSet of it")
	cmd.Flags().StringVar(&commandLine, "command-line", "", "`FILE` with the command line: a unit of systemd, /proc/<pid>/cmdline, the output of ps")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return misuse{fmt.Errorf("%w: the flags to convert come after --", err)}
	})
	return cmd
}

func fromFlags(cmd *cobra.Command, manifest, commandLine string, args []string) (*fromflags.Result, error) {
	given := 0
	for _, is := range []bool{manifest != "", commandLine != "", len(args) > 0 || cmd.ArgsLenAtDash() >= 0} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, misuse{errors.New("from-flags needs one of --manifest FILE, --command-line FILE, and flags after --")}
	case len(args) > 0 && cmd.ArgsLenAtDash() != 0:
		return nil, misuse{fmt.Errorf("%q is no flag: the flags to convert come after --", args[0])}
	case manifest != "":
		data, err := readInput(cmd, manifest)
		if err != nil {
			return nil, err
		}
		return fromflags.FromManifest(data)
	case commandLine != "":
		data, err := readInput(cmd, commandLine)
		if err != nil {
			return nil, err
		}
		return fromflags.FromCommandLine(string(data))
	}
	return fromflags.Convert(args)
}

// readInput reads a file that is no configuration, or the standard input. A file may be
// one that has no size, such as those of /proc.
func readInput(cmd *cobra.Command, name string) ([]byte, error) {
	if name != sources.Stdin {
		return readFile(name)
	}
	data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), sources.MaxFileBytes))
	if err != nil {
		return nil, fmt.Errorf("reading the standard input: %w", err)
	}
	return data, nil
}

// printConverted prints the file, and what there is to know about it to the standard error.
func printConverted(cmd *cobra.Command, file []byte, notes []upstream.Note, err error) error {
	if err != nil {
		return err
	}
	for _, note := range notes {
		word := "note"
		if note.Important {
			word = "IMPORTANT"
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", word, strings.ReplaceAll(note.String(), "\n", " "))
	}
	_, err = cmd.OutOrStdout().Write(file)
	return err
}
