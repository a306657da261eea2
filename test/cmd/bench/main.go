// Command bench compares our kube-controller-manager with the unmodified one of the
// Kubernetes release; package benchmark says how.
//
//  1. `bench run` measures and saves results; what was measured before of other
//     scenarios and modes stays, so a long comparison can be made in parts.
//  2. `bench render` prints the table of all results and writes the pages and plots of
//     the documentation.
package main

import (
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"kcmd.dev/test/cmd/tool"
)

func main() {
	// Endpoints are deprecated, and measured all the same.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	tool.Main(newCommand())
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "bench",
		Short: "Compare our kube-controller-manager with upstream's",
	}
	root.AddCommand(newRunCommand(), newRenderCommand())
	return root
}
