// Package replication stands in for upstream's, see kcmd.dev/test/suites.
package replication

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

const BurstReplicas = 500

type ReplicationManager = launch.Controller

func NewReplicationManager(_ context.Context, args ...any) *ReplicationManager {
	return launch.New(args, "replicationcontroller-controller")
}
