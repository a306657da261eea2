// Package replicaset stands in for upstream's, see kcmd.dev/test/suites.
package replicaset

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

const BurstReplicas = 500

type ReplicaSetController = launch.Controller

func NewReplicaSetController(_ context.Context, args ...any) *ReplicaSetController {
	return launch.New(args, "replicaset-controller")
}
