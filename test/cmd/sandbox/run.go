package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/controlplane/process"
	"kcmd.dev/test/manager/program"
)

// managerGrace is what the manager gets to drain its controllers and give up
// its lease.
const managerGrace = 30 * time.Second

func newRunCommand(dir *string) *cobra.Command {
	var shape cluster
	var config string
	command := &cobra.Command{
		Use:   "run",
		Short: "Run a control plane and the manager, built from this tree, until Ctrl-C",
		Long: `Run a control plane and the manager, built from this tree, until Ctrl-C.

The manager reads the given file itself, so an edit of it takes effect while it
runs. The manager's working directory is the root of the repository: the file
refers to .sandbox/controller-manager.conf, .sandbox/sa.key, .sandbox/ca.crt.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			f, err := openFolder(*dir)
			if err != nil {
				return err
			}
			if config, err = resolveConfig(f.root, config); err != nil {
				return err
			}
			return run(command.Context(), f, shape, config)
		},
	}
	shape.register(command, 10)
	command.Flags().StringVar(&config, "config", "", "configuration file of the manager (default configs/sandbox.yaml in the repository)")
	return command
}

// resolveConfig returns the file's path as the manager is given it: relative to
// the repository when the file lies in it.
func resolveConfig(root, config string) (string, error) {
	if config == "" {
		config = filepath.Join(root, "configs", "sandbox.yaml")
	}
	absolute, err := filepath.Abs(config)
	if err != nil {
		return "", fmt.Errorf("resolving the configuration file: %w", err)
	}
	if _, err := os.Stat(absolute); err != nil {
		return "", fmt.Errorf("reading the configuration file: %w", err)
	}
	relative, err := filepath.Rel(root, absolute)
	if err != nil || relative == ".." || strings.HasPrefix(relative, ".."+string(filepath.Separator)) {
		return absolute, nil
	}
	return relative, nil
}

// run builds first, so that a compile error shows before anything is started.
func run(ctx context.Context, f folder, shape cluster, config string) error {
	bin, err := binaries.Build(ctx, os.Stderr, programs(shape.csi)...)
	if err != nil {
		return err
	}
	manager := filepath.Join(bin, program.Name)
	fmt.Fprintln(os.Stderr, "building", program.Name, "…")
	if err := program.Build(ctx, f.root, manager); err != nil {
		return err
	}
	return runManager(ctx, f, shape, manager, config)
}

// runManager runs the given manager on a control plane until ctx or one of them
// ends. The manager ends first, so that it can still give up its lease.
func runManager(ctx context.Context, f folder, shape cluster, manager, config string) error {
	return withControlPlane(ctx, f, shape, func(ctx context.Context, c *controlplane.ControlPlane) error {
		p, err := process.Start(process.Spec{
			Name:   program.Name,
			Path:   manager,
			Args:   []string{"--config", config},
			Dir:    f.root,
			Output: os.Stderr,
		})
		if err != nil {
			return err
		}
		fmt.Println(instructions(f, config))
		err = untilDone(ctx, c, p)
		return errors.Join(err, p.Stop(managerGrace))
	})
}
