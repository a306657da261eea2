package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/footprint"
	"kcmd.dev/pkg/runtime/plain"
)

// Exit codes.
const (
	exitGood    = 0 // success, or the file is valid
	exitFailed  = 1 // failure, or the file is invalid
	exitMisuse  = 2 // invalid usage
	exitChanged = 3 // with --exit-code: something changes
)

// failure marks errors that have been shown already.
type failure struct{ error }

// errChanged is the result of a comparison that found a change, with --exit-code.
var errChanged = errors.New("something changes")

func execute(args []string, stdout, stderr io.Writer) int {
	return executeRoot(newRoot(), args, stdout, stderr)
}

func executeRoot(root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	addCompletion(root) // the library takes the output of its commands from the root now
	cmd, err := root.ExecuteC()
	var wrong misuse
	var shown failure
	switch {
	case err == nil:
		return exitGood
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "Error: %s\nRun '%s --help' for usage.\n", plain.Text(err.Error()), usageOf(cmd).CommandPath())
		return exitMisuse
	case errors.Is(err, errChanged):
		return exitChanged
	case errors.As(err, &shown):
		return exitFailed
	}
	fmt.Fprintf(stderr, "Error: %s\n", plain.Text(err.Error()))
	return exitFailed
}

func newRoot() *cobra.Command {
	var file, lastGood once
	var printsVersion bool
	root := &cobra.Command{
		Use:   "kube-controller-manager --config FILE",
		Short: "Run the controllers of Kubernetes as one configuration file says",
		Long: `Run the controllers of Kubernetes, such as those for Deployments, ReplicaSets and Namespaces.

One file configures everything the process does. The process follows edits of the file while
it runs: only the controllers that the edit affects are restarted, on caches that stay warm.
An invalid edit changes nothing and is reported in the log, by metrics, as an event on the
Lease and under /statusz.

A process that is started with an invalid file exits. With --last-good, it starts with the
configuration that was last in force, and follows the file.

Exit codes: 0 success, or the file is valid; 1 failure, or the file is invalid; 2 invalid
usage; 3 something changes, with --exit-code.`,
		Example: `  # Run
  kube-controller-manager --config config.yaml

  # Is this file valid?
  kube-controller-manager check-config config.yaml

  # What would this edit restart?
  kube-controller-manager check-config new.yaml --against config.yaml

  # What does the process make of this file?
  kube-controller-manager config view config.yaml

  # What does this field do?
  kube-controller-manager config explain controllers.job-controller

  # What is the process doing?
  kube-controller-manager status --config config.yaml

  # Why does this object not change?
  kube-controller-manager why deployment/web -n shop`,
		Args:          noFile,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if printsVersion {
				return printVersion(cmd.OutOrStdout(), thisVersion())
			}
			if file.value == "" {
				return misuse{errors.New("--config FILE is required")}
			}
			if lastGood.value == "" && cmd.Flags().Changed("last-good") {
				return misuse{errors.New("--last-good must name a directory")}
			}
			return run(cmd.Context(), runtime.Options{ConfigFile: file.value, LastGood: lastGood.value})
		},
	}
	root.Flags().Var(&file, "config", "path of the configuration `FILE` (required)")
	root.Flags().Var(&lastGood, "last-good",
		"`DIR` in which the configuration in force is kept, "+
			"to start with it while the configuration file is invalid or missing\n"+
			"(default: nothing is kept)")
	root.Flags().BoolVar(&printsVersion, "version", false, "print the version")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newCheckConfig(), newConfig(), newControllers(), newStatus(), newVersion(), newWhy())
	root.SetHelpCommand(newHelp())
	return root
}

// run runs the controllers until the process receives a signal. A second signal ends it
// immediately.
func run(ctx context.Context, o runtime.Options) error {
	ctx, stop := signal.NotifyContext(background(ctx), syscall.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // back to the default: a second signal kills
	defer ignoreHangups()()
	defer klog.Flush()
	defer footprint.Keep()()

	if err := pinClientGates(); err != nil {
		return err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	o.Descriptors = controllers.All()
	r, err := runtime.New(o)
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// ignoreHangups says in the log that SIGHUP has no effect, until it is stopped. It would end the process at once, with its
// leases held, and many programs take it as a request to read their configuration again.
func ignoreHangups() (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range hangups {
			klog.Background().Info("SIGHUP has no effect: edits of the configuration file are followed without a signal")
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
		<-ended
	}
}
