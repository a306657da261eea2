// Package tool is what the commands for developers have in common.
package tool

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs a command, and ends the process with 1 if that fails. The first signal asks
// for an orderly stop; a second one ends the process at once, and the kernel then ends its
// children.
func Main(command *cobra.Command) {
	command.SilenceUsage, command.SilenceErrors = true, true
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
