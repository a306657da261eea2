// Package resourceclaim stands in for upstream's, see kcmd.dev/test/suites.
package resourceclaim

import (
	"kcmd.dev/test/suites/launch"
)

// Features are a matter of the manager, which follows the gates.
type Features struct {
	AdminAccess, PrioritizedList, WorkloadResourceClaims, ExtendedResource, DeviceTaints any
}

func NewController(args ...any) (*launch.Controller, error) {
	return launch.New(args, "resourceclaim-controller"), nil
}
