// Package devicetainteviction stands in for upstream's, see kcmd.dev/test/suites.
package devicetainteviction

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

// Controller returns no error.
type Controller struct{ *launch.Controller }

func New(args ...any) *Controller {
	return &Controller{launch.New(args, "device-taint-eviction-controller")}
}

func (c *Controller) Run(ctx context.Context, _ int) error {
	c.Controller.Run(ctx)
	return nil
}
