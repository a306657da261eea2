// Package podgc stands in for upstream's, see kcmd.dev/test/suites.
package podgc

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

func NewPodGC(_ context.Context, args ...any) *launch.Controller {
	return launch.New(args, "pod-garbage-collector-controller")
}

// NewPodGCInternal also gets how often it looks, and how long a node has to be gone. These are constants of the manager.
func NewPodGCInternal(ctx context.Context, args ...any) *launch.Controller {
	return NewPodGC(ctx, args...)
}
