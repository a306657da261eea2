// Package endpointslicemirroring stands in for upstream's, see kcmd.dev/test/suites.
package endpointslicemirroring

import (
	"context"
	"fmt"
	"time"

	"kcmd.dev/test/suites/launch"
)

const ControllerName = "endpointslicemirroring-controller.k8s.io"

func NewController(_ context.Context, endpoints, slices, services any, limit int32, client any, batch time.Duration,
) *launch.Controller {
	return launch.New([]any{endpoints, slices, services, client}, "endpointslice-mirroring-controller",
		fmt.Sprintf("--mirroring-max-endpoints-per-subset=%d", limit),
		"--mirroring-endpointslice-updates-batch-period="+batch.String())
}
