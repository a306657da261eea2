// Package cronjob stands in for upstream's, see kcmd.dev/test/suites.
package cronjob

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

type ControllerV2 = launch.Controller

func NewControllerV2(_ context.Context, args ...any) (*ControllerV2, error) {
	return launch.New(args, "cronjob-controller"), nil
}
