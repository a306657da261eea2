package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/controlplane/process"
)

// cluster are the flags that shape the control plane.
type cluster struct {
	nodes         int
	scheduler     bool
	csi           bool
	apiServerArgs []string
}

func (c *cluster) register(command *cobra.Command, nodes int) {
	command.Flags().IntVar(&c.nodes, "nodes", nodes, "number of simulated nodes; 0 runs no kwok")
	command.Flags().BoolVar(&c.scheduler, "scheduler", true, "run kube-scheduler")
	command.Flags().BoolVar(&c.csi, "csi", false, "run a CSI driver, and the programs that provision, attach and expand its volumes")
	command.Flags().StringArrayVar(&c.apiServerArgs, "apiserver-arg", nil, "a further flag of kube-apiserver, for example --apiserver-arg=--v=4; may be repeated")
}

// args are the flags that make another invocation run the same control plane.
func (c *cluster) args() []string {
	args := []string{fmt.Sprintf("--nodes=%d", c.nodes), fmt.Sprintf("--scheduler=%t", c.scheduler), fmt.Sprintf("--csi=%t", c.csi)}
	for _, arg := range c.apiServerArgs {
		args = append(args, "--apiserver-arg="+arg)
	}
	return args
}

// programs are the names of all that may be of use with the control plane.
func programs(csi bool) []string {
	if csi {
		return append(binaries.All(), binaries.CSI()...)
	}
	return binaries.All()
}

func newBuildCommand() *cobra.Command {
	var csi bool
	command := &cobra.Command{
		Use:   "build",
		Short: "Build the programs of the control plane into .bin, if they are missing or of another version",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			folder, err := binaries.Build(command.Context(), os.Stderr, programs(csi)...)
			if err != nil {
				return err
			}
			fmt.Fprintln(os.Stderr, "the programs are current in", folder)
			return nil
		},
	}
	command.Flags().BoolVar(&csi, "csi", false, "build a CSI driver, too, and the programs that provision, attach and expand its volumes")
	return command
}

func newUpCommand(dir *string) *cobra.Command {
	var shape cluster
	var detached bool
	command := &cobra.Command{
		Use:   "up",
		Short: "Run a control plane until Ctrl-C, or in the background",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			f, err := openFolder(*dir)
			if err != nil {
				return err
			}
			if _, err := binaries.Build(command.Context(), os.Stderr, programs(shape.csi)...); err != nil {
				return err
			}
			if detached {
				return detach(command.Context(), f, shape)
			}
			return withControlPlane(command.Context(), f, shape, func(ctx context.Context, c *controlplane.ControlPlane) error {
				fmt.Println(instructions(f, ""))
				return untilDone(ctx, c, nil)
			})
		},
	}
	shape.register(command, 5)
	command.Flags().BoolVar(&detached, "detach", false, "return when the control plane is ready; `sandbox down` stops it")
	return command
}

// withControlPlane runs a control plane in the folder while body runs. Other
// invocations see it in the state file, from the moment it starts.
func withControlPlane(ctx context.Context, f folder, shape cluster, body func(context.Context, *controlplane.ControlPlane) error) (err error) {
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.clear(); err != nil {
		return err
	}
	self, err := process.Identify(os.Getpid())
	if err != nil {
		return err
	}
	now := state{Process: self, Nodes: shape.nodes}
	if err := f.writeState(now); err != nil {
		return err
	}
	defer func() {
		if os.Getenv("KCMD_KEEP") == "" {
			err = errors.Join(err, f.clear())
		}
	}()
	c, err := controlplane.Start(ctx, controlplane.Options{
		Nodes:          shape.nodes,
		NodesKeepTaint: true,
		Scheduler:      shape.scheduler,
		CSI:            shape.csi,
		APIServerArgs:  shape.apiServerArgs,
		Dir:            f.clusterDir(),
		Log:            os.Stderr,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if err := f.publish(c); err != nil {
		return err
	}
	now.Ready, now.Server = true, c.URL()
	if err := f.writeState(now); err != nil {
		return err
	}
	return body(ctx, c)
}

// untilDone waits for a signal, or for the unexpected end of the control plane
// or of the manager (nil: there is none).
func untilDone(ctx context.Context, c *controlplane.ControlPlane, manager *process.Process) error {
	var managerExited <-chan struct{}
	if manager != nil {
		managerExited = manager.Exited()
	}
	select {
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr, "stopping …")
		return nil
	case <-c.Failed():
		return c.Err()
	case <-managerExited:
		return manager.Err()
	}
}

// instructions say how to use the sandbox; config names the manager's file, empty
// when no manager runs.
func instructions(f folder, config string) string {
	kubectl := filepath.Join(f.root, ".bin", binaries.Kubectl)
	lines := []string{
		"",
		"The control plane is ready. In another terminal:",
		"",
		"  export KUBECONFIG=" + f.adminKubeconfig(),
		"  alias kubectl=" + kubectl,
		"",
	}
	if config == "" {
		lines = append(lines, "  kubectl get nodes", "")
		return strings.Join(lines, "\n")
	}
	lines = append(lines,
		"  kubectl create deployment web --image=x --replicas=10",
		"  kubectl get pods -o wide --watch",
		"",
		"Then edit "+config+" and save: change concurrentSyncs of deployment-controller,",
		"and see in the log below that this controller alone restarts. Ctrl-C ends everything.",
		"",
	)
	return strings.Join(lines, "\n")
}
