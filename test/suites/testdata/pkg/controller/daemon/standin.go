// Package daemon stands in for upstream's, see kcmd.dev/test/suites.
package daemon

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

type DaemonSetsController = launch.Controller

func NewDaemonSetsController(_ context.Context, args ...any) (*DaemonSetsController, error) {
	return launch.New(args, "daemonset-controller"), nil
}
