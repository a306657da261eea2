// Package ttl stands in for upstream's, see kcmd.dev/test/suites.
package ttl

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

// NewTTLController has nodes read again every second, as the informers of the test do: it has no kubelets.
func NewTTLController(_ context.Context, args ...any) *launch.Controller {
	return launch.New(args, "ttl-controller", "--min-resync-period=1s")
}
