// Command sandbox runs a Kubernetes control plane on this machine to try the
// manager on: etcd, kube-apiserver, kube-scheduler and nodes simulated by kwok.
//
//  1. `sandbox up` runs it until Ctrl-C, `sandbox up --detach` in the background
//     until `sandbox down`. `sandbox run` adds the manager, built from this tree,
//     and shows its log. `sandbox build` only builds the programs.
//  2. What a manager's configuration refers to lies at fixed names in the folder
//     .sandbox of the repository: controller-manager.conf, sa.key, ca.crt, ca.key
//     and so on; admin.conf is for kubectl. Logs are in .sandbox/cluster.
//  3. One sandbox runs per folder; --dir chooses another folder.
//  4. The control plane ends with the process that started it, however that ends;
//     the next start clears what a killed one left.
package main

import (
	"github.com/spf13/cobra"

	"kcmd.dev/test/cmd/tool"
)

func main() { tool.Main(newCommand()) }

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "sandbox",
		Short: "Run a Kubernetes control plane with simulated nodes to try the manager on",
	}
	dir := root.PersistentFlags().String("dir", "", "folder of the sandbox's files (default .sandbox in the repository)")
	root.AddCommand(newBuildCommand(), newUpCommand(dir), newRunCommand(dir), newDownCommand(dir), newStatusCommand(dir))
	return root
}
