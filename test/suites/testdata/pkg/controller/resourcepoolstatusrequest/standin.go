// Package resourcepoolstatusrequest stands in for upstream's, see kcmd.dev/test/suites.
package resourcepoolstatusrequest

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

func NewController(_ context.Context, args ...any) (*launch.Controller, error) {
	return launch.New(args, "resourcepoolstatusrequest-controller"), nil
}
