// Package cleaner stands in for upstream's, see kcmd.dev/test/suites.
package cleaner

import (
	"kcmd.dev/test/suites/launch"
)

// NewPCRCleanerController also gets a clock and two times. These are constants of the manager.
func NewPCRCleanerController(args ...any) *launch.Controller {
	return launch.New(args, "podcertificaterequest-cleaner-controller")
}
