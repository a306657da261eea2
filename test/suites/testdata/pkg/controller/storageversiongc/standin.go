// Package storageversiongc stands in for upstream's, see kcmd.dev/test/suites.
package storageversiongc

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

func NewStorageVersionGC(_ context.Context, args ...any) *launch.Controller {
	return launch.New(args, "storageversion-garbage-collector-controller")
}
