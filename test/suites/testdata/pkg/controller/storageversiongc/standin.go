package storageversiongc

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

func NewStorageVersionGC(_ context.Context, args ...any) *launch.Controller {
	return launch.New(args, "storageversion-garbage-collector-controller")
}
