package main

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
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
)

// Exit codes.
const (
	exitGood   = 0 // it worked, or the file is valid
	exitFailed = 1 // it failed, or the file is not valid
	exitMisuse = 2 // the command line makes no sense
)

// misuse marks errors of the command line.
type misuse struct{ error }

// failure marks errors that have been shown already.
type failure struct{ error }

func execute(args []string, stdout, stderr io.Writer) int {
	return executeRoot(newRoot(), args, stdout, stderr)
}

func executeRoot(root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	var wrong misuse
	var shown failure
	switch {
	case err == nil:
		return exitGood
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "Error: %v\nRun 'kube-controller-manager --help' for usage.\n", err)
		return exitMisuse
	case errors.As(err, &shown):
		return exitFailed
	}
	fmt.Fprintf(stderr, "Error: %v\n", err)
	return exitFailed
}

func newRoot() *cobra.Command {
	var file string
	root := &cobra.Command{
		Use:   "kube-controller-manager --config FILE",
		Short: "Runs the control loops of Kubernetes as one configuration file says",
		Long: `Runs the control loops of Kubernetes: deployments, replica sets, namespaces and so on.

Everything it does is in one file. Edit the file while it runs, and the process follows:
only the controllers that the edit concerns are restarted, on caches that stay warm. An
edit that is not valid changes nothing and is reported in the log, in the metrics, as an
event on the lease and under /statusz.

Exit codes: 0 it worked or the file is valid, 1 it failed or the file is not valid, 2 the
command line makes no sense.`,
		Example: `  # Run
  kube-controller-manager --config config.yaml

  # Is this file valid?
  kube-controller-manager check-config config.yaml

  # What would this edit restart?
  kube-controller-manager check-config new.yaml --against config.yaml

  # What does this field do?
  kube-controller-manager config explain controllers.job-controller

  # What is the process doing?
  kube-controller-manager status --config config.yaml`,
		Args:          noArguments,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return misuse{errors.New("--config FILE is required")}
			}
			return run(cmd.Context(), file)
		},
	}
	root.Flags().StringVar(&file, "config", "", "path of the configuration file (required)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return misuse{err} })
	root.AddCommand(newCheckConfig(), newConfig(), newControllers(), newStatus(), newVersion())
	return root
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misuse{fmt.Errorf("%q is neither a command nor a flag of %q", args[0], cmd.CommandPath())}
	}
	return nil
}

// run works until the process is told to end. A second signal ends it at once.
func run(ctx context.Context, file string) error {
	ctx, stop := signal.NotifyContext(background(ctx), syscall.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // back to the default: a second signal kills
	defer klog.Flush()

	if err := pinClientGates(); err != nil {
		return err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	r, err := runtime.New(runtime.Options{ConfigFile: file, Descriptors: controllers.All()})
	if err != nil {
		return err
	}
	klog.Background().Info("Starting", "version", versionOf(version.Get()))
	return r.Run(ctx)
}
