// Package servicecidrs stands in for upstream's, see kcmd.dev/test/suites.
package servicecidrs

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

func NewController(_ context.Context, args ...any) *launch.Controller {
	return launch.New(args, "service-cidr-controller")
}
