package app

import (
	"context"
	"errors"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/cli/status"
	"kcmd.dev/pkg/cli/terminal"
)

func newStatus() *cobra.Command {
	var connection connectionFlags
	var output outputFlag
	var color colorFlag
	var watch bool
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the status of a running process",
		Long: `Show the status of a running process, read from its secure port: the configuration in force and
the result of the last edit, the leases it holds, and for each controller its state, the
number of its instances and why they were replaced, its queued work, and its last error.

You need permission to get /statusz (and /configz, for check-config --against live); members
of system:masters have it. If you do not, the error says how to grant it.`,
		Example: `  kube-controller-manager status
  kube-controller-manager status --config /etc/kubernetes/kcm.yaml --ca-file /etc/kubernetes/pki/kcm-ca.crt
  kube-controller-manager status --server https://10.0.0.5:10257 --token-file token --watch`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.check(); err != nil {
				return err
			}
			switch {
			case interval <= 0:
				return misuse{errors.New("--interval must be more than 0s")}
			case cmd.Flags().Changed("interval") && !watch:
				return misuse{errors.New("--interval needs --watch")}
			}
			colors, err := color.colors(cmd)
			if err != nil {
				return err
			}
			client, err := connection.open()
			if err != nil {
				return err
			}
			json := output.format == "json"
			viewer := status.Viewer{
				Source: client, Server: client.Server, Out: cmd.OutOrStdout(), Colors: colors, Clock: clock.RealClock{},
				JSON: json, Redraw: watch && !json && terminal.Is(cmd.OutOrStdout()),
			}
			if !watch {
				return viewer.Once(background(cmd.Context()))
			}
			ctx, stop := signal.NotifyContext(background(cmd.Context()), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			return viewer.Watch(ctx, interval)
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show the status repeatedly")
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "time between two requests with --watch")
	output.add(cmd, "text", "json")
	color.add(cmd)
	connection.add(cmd)
	return cmd
}

// background returns the context of a command, or the background context if it has none.
func background(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
