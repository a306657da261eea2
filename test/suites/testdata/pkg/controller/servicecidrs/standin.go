package servicecidrs

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

func NewController(_ context.Context, args ...any) *launch.Controller {
	return launch.New(args, "service-cidr-controller")
}
