// Package namespace stands in for upstream's, see kcmd.dev/test/suites.
package namespace

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

type NamespaceController = launch.Controller

func NewNamespaceController(_ context.Context, args ...any) *NamespaceController {
	return launch.New(args, "namespace-controller")
}
