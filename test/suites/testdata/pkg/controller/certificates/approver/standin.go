// Package approver stands in for upstream's, see kcmd.dev/test/suites.
package approver

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

func NewCSRApprovingController(_ context.Context, args ...any) *launch.Controller {
	return launch.New(args, "certificatesigningrequest-approving-controller")
}
