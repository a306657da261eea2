// Package endpointslice stands in for upstream's, see kcmd.dev/test/suites.
package endpointslice

import (
	"context"
	"fmt"
	"time"

	"kcmd.dev/test/suites/launch"
)

const ControllerName = "endpointslice-controller.k8s.io"

func NewController(_ context.Context, pods, services, nodes, slices any, limit int32, client any, batch time.Duration,
) *launch.Controller {
	return launch.New([]any{pods, services, nodes, slices, client}, "endpointslice-controller",
		fmt.Sprintf("--max-endpoints-per-slice=%d", limit), "--endpointslice-updates-batch-period="+batch.String())
}
