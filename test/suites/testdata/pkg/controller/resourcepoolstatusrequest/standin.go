package resourcepoolstatusrequest

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

func NewController(_ context.Context, args ...any) (*launch.Controller, error) {
	return launch.New(args, "resourcepoolstatusrequest-controller"), nil
}
