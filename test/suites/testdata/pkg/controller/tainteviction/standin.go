// Package tainteviction stands in for upstream's, see kcmd.dev/test/suites.
package tainteviction

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

func New(_ context.Context, args ...any) (*launch.Controller, error) {
	return launch.New(args, "taint-eviction-controller"), nil
}
