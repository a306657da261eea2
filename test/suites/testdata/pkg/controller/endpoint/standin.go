// Package endpoint stands in for upstream's, see kcmd.dev/test/suites.
package endpoint

import (
	"context"
	"time"

	"kcmd.dev/test/suites/launch"
)

const (
	ControllerName = "endpoint-controller"
	LabelManagedBy = "endpoints.kubernetes.io/managed-by"
)

func NewEndpointController(_ context.Context, pods, services, endpoints, client any, batch time.Duration) *launch.Controller {
	return launch.New([]any{pods, services, endpoints, client}, "endpoints-controller",
		"--endpoint-updates-batch-period="+batch.String())
}
