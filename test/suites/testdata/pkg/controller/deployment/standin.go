// Package deployment stands in for upstream's, see kcmd.dev/test/suites.
package deployment

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

type DeploymentController = launch.Controller

func NewDeploymentController(_ context.Context, args ...any) (*DeploymentController, error) {
	return launch.New(args, "deployment-controller"), nil
}
