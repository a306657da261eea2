package app

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/cli/endpoint"
	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
)

// colorFlag is --color of a command.
type colorFlag struct{ when string }

func (f *colorFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.when, "color", string(terminal.Auto),
		"when to colour the output: auto (on a terminal, unless NO_COLOR is set), always or never")
	complete(cmd, "color", string(terminal.Auto), string(terminal.Always), string(terminal.Never))
}

func (f *colorFlag) colors(cmd *cobra.Command) (terminal.Colors, error) {
	when, err := terminal.ParseWhen(f.when)
	if err != nil {
		return terminal.Colors{}, misuse{fmt.Errorf("--color %w", err)}
	}
	return terminal.ColorsFor(when, cmd.OutOrStdout(), os.Getenv("NO_COLOR")), nil
}

// once is the value of a flag that may be given once. Of several values, all but the last would be ignored without a word.
type once struct {
	value string
	given bool
}

// String implements pflag.Value.
func (o *once) String() string { return o.value }

// Type implements pflag.Value.
func (o *once) Type() string { return "string" }

// Set implements pflag.Value.
func (o *once) Set(value string) error {
	if o.given {
		return fmt.Errorf("it is given twice, and was %q before", o.value)
	}
	o.value, o.given = value, true
	return nil
}

// outputFlag is --output of a command.
type outputFlag struct {
	format  string
	formats []string
}

// add adds the flag; the first format is the default.
func (f *outputFlag) add(cmd *cobra.Command, formats ...string) {
	f.formats = formats
	cmd.Flags().StringVarP(&f.format, "output", "o", formats[0], "one of: "+strings.Join(formats, ", "))
	complete(cmd, "output", formats...)
}

func (f *outputFlag) check() error {
	if slices.Contains(f.formats, f.format) {
		return nil
	}
	return misuse{fmt.Errorf("--output must be one of %s, not %q", strings.Join(f.formats, ", "), f.format)}
}

// complete completes the values of a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	completeFunc(cmd, flag, func() []string { return values })
}

func completeFunc(cmd *cobra.Command, flag string, values func() []string) {
	completion := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values(), cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, completion); err != nil {
		panic(err) // the flag has not been added
	}
}

// completeArgs completes the arguments of a command.
func completeArgs(values func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		rest := slices.DeleteFunc(values(), func(value string) bool { return slices.Contains(args, value) })
		return rest, cobra.ShellCompDirectiveNoFileComp
	}
}

// connectionFlags say how to reach a running process.
type connectionFlags struct {
	connection endpoint.Connection
	config     string
	set        *pflag.FlagSet
}

func (f *connectionFlags) add(cmd *cobra.Command) {
	flags, c := cmd.Flags(), &f.connection
	f.set = flags
	flags.StringVar(&c.Server, "server", "",
		"`URL` of the running process (default: the address in --config, else "+endpoint.DefaultServer+")")
	flags.StringVar(&f.config, "config", "", "configuration `FILE` of the running process, used for its address and port")
	flags.StringVar(&c.Kubeconfig, "kubeconfig", "",
		"`FILE` with the credentials (default: $KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&c.Context, "context", "", "`NAME` of the context in the kubeconfig (default: the current context)")
	flags.StringVar(&c.TokenFile, "token-file", "", "`FILE` with a bearer token, instead of a kubeconfig")
	flags.StringVar(&c.CAFile, "ca-file", "",
		"`FILE` with the CA certificates that the certificate of the process is verified with\n"+
			"(default: those in the kubeconfig, else those of the system)")
	flags.BoolVar(&c.Insecure, "insecure-skip-tls-verify", false, "do not verify the certificate of the process")
	flags.DurationVar(&c.Timeout, "timeout", 10*time.Second, "how long to wait for a response")
}

// names are those of the flags.
func (f *connectionFlags) names() []string {
	return []string{
		"server", "config", "kubeconfig", "context", "token-file", "ca-file", "insecure-skip-tls-verify", "timeout",
	}
}

// need returns an error if one of these flags is set without what they need.
func (f *connectionFlags) need(what string) error {
	for _, name := range f.names() {
		if f.set.Changed(name) {
			return misuse{fmt.Errorf("--%s needs %s", name, what)}
		}
	}
	return nil
}

// notEmpty returns an error if one of the flags is set to an empty value, for example by an unset variable: that would
// mean the default, such as another process than the intended one.
func notEmpty(flags *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if flags.Changed(name) && flags.Lookup(name).Value.String() == "" {
			return misuse{fmt.Errorf("--%s must not be empty", name)}
		}
	}
	return nil
}

// open prepares a client for the process.
func (f *connectionFlags) open() (*endpoint.Client, error) {
	if err := notEmpty(f.set, f.names()...); err != nil {
		return nil, err
	}
	switch c := f.connection; {
	case c.TokenFile != "" && c.Kubeconfig != "":
		return nil, misuse{fmt.Errorf("--token-file and --kubeconfig cannot be combined")}
	case c.TokenFile != "" && c.Context != "":
		return nil, misuse{fmt.Errorf("--token-file and --context cannot be combined")}
	case c.CAFile != "" && c.Insecure:
		return nil, misuse{fmt.Errorf("--ca-file and --insecure-skip-tls-verify cannot be combined")}
	case c.Timeout <= 0:
		return nil, misuse{fmt.Errorf("--timeout must be more than 0s")}
	}
	connection := f.connection
	if f.config != "" && connection.Server == "" {
		serving, err := servingOf(f.config)
		if err != nil {
			return nil, err
		}
		connection.Serving = serving
	}
	client, err := connection.Open()
	var address *endpoint.AddressError
	if errors.As(err, &address) {
		return nil, misuse{fmt.Errorf("--server: %w", err)}
	}
	return client, err
}

// servingOf returns where the process with a configuration serves. The file may have become
// invalid since the process read it, which is when its status is needed most.
func servingOf(name string) (*v1beta1.Serving, error) {
	const advice = "%w\nThe address of the process cannot be read from this file: set --server https://HOST:PORT"
	data, err := readFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: "+advice, err)
	}
	document, err := config.Load(name, data)
	if err == nil {
		return &document.Config.Serving, nil
	}
	var invalid struct {
		Serving v1beta1.Serving `json:"serving"`
	}
	if yaml.Unmarshal(data, &invalid) != nil {
		return nil, fmt.Errorf(advice, err)
	}
	cfg := &v1beta1.KubeControllerManagerConfiguration{Serving: invalid.Serving}
	v1beta1.SetDefaults(cfg)
	return &cfg.Serving, nil
}
