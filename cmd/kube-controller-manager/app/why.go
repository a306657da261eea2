package app

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kcmd.dev/pkg/runtime/why"
)

func newWhy() *cobra.Command {
	var connection connectionFlags
	var output outputFlag
	var q why.Query
	cmd := &cobra.Command{
		Use:   "why TYPE/NAME",
		Short: "Explain what controllers did with an object, and what they wait for",
		Long: `Explain what the controllers of a running process did with an object and its dependents lately,
and what they wait for: each write with the key that was worked on and what triggered it, its
outcome, how long it took, the generation of the configuration and the term of the lease; what is
queued or backs off, and until when; which controllers do not run, and why; for what is being
deleted, the finalizers that are left.

The process answers from its memory and sends no request. Ask the one that holds the lease: the
others have written nothing.

You need permission to get /debug/why; members of system:masters have it. If you do not, the
error says how to grant it.`,
		Example: `  kube-controller-manager why deployment/web -n shop
  kube-controller-manager why namespace/shop --server https://10.0.0.5:10257 --token-file token`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.check(); err != nil {
				return err
			}
			if err := notEmpty(cmd.Flags(), "namespace"); err != nil {
				return err
			}
			if err := parseObject(&q, args); err != nil {
				return err
			}
			client, err := connection.open()
			if err != nil {
				return err
			}
			answer, raw, err := client.Why(background(cmd.Context()), q)
			if err != nil {
				return err
			}
			if output.format != "json" {
				raw = []byte(answer.Text())
			}
			_, err = cmd.OutOrStdout().Write(raw)
			return err
		},
	}
	cmd.Flags().StringVarP(&q.Namespace, "namespace", "n", "default", "`NAMESPACE` of the object")
	cmd.Flags().IntVar(&q.Last, "last", 20, "how many writes to show at most")
	output.add(cmd, "text", "json")
	connection.add(cmd)
	return cmd
}

// parseObject reads TYPE/NAME or TYPE NAME.
func parseObject(q *why.Query, args []string) error {
	if q.Last < 1 {
		return misuse{errors.New("--last must be 1 or more")}
	}
	args = strings.Split(strings.Join(args, "/"), "/")
	if len(args) != 2 || args[0] == "" || args[1] == "" {
		return misuse{fmt.Errorf("the object must be TYPE/NAME, such as deployment/web")}
	}
	q.Type, q.Name = args[0], args[1]
	return nil
}
