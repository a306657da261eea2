// Package disruption stands in for upstream's, see kcmd.dev/test/suites.
package disruption

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

type DisruptionController = launch.Controller

func NewDisruptionController(_ context.Context, args ...any) *DisruptionController {
	return launch.New(args, "disruption-controller")
}

// NewDisruptionControllerInternal also gets a clock and a timeout. These are constants of the manager.
func NewDisruptionControllerInternal(ctx context.Context, args ...any) *launch.Controller {
	return NewDisruptionController(ctx, args...)
}
