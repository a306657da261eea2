// Command bench compares our kube-controller-manager with the unmodified one of the
// Kubernetes release; package benchmark says how.
//
//  1. `bench run` measures and saves results; what was measured before of other
//     scenarios and modes stays, so a long comparison can be made in parts.
//  2. `bench render` prints the table of all results and writes the pages and plots of
//     the documentation.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
)

func main() {
	// Endpoints are deprecated, and measured all the same.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly stop, a second one ends the process at
	// once; the kernel then ends its children.
	context.AfterFunc(ctx, stop)
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "bench",
		Short:         "Compare our kube-controller-manager with upstream's",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newRunCommand(), newRenderCommand())
	return root
}
