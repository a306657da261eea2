package job

import (
	"context"
	"time"

	"kcmd.dev/test/suites/launch"
)

// Tests set these before they start the controller. They are constants of the manager.
var (
	DefaultJobPodFailureBackOff = 10 * time.Second
	MaxJobPodFailureBackOff     = 10 * time.Minute
	SyncJobBatchPeriod          = time.Second
	MaxUncountedPods            = 500
	MaxPodCreateDeletePerSync   = 500
)

type Controller = launch.Controller

func NewController(_ context.Context, args ...any) (*Controller, error) {
	return launch.New(args, "job-controller"), nil
}
