// Package statefulset stands in for upstream's, see kcmd.dev/test/suites.
package statefulset

import (
	"context"

	"kcmd.dev/test/suites/launch"
)

type StatefulSetController = launch.Controller

func NewStatefulSetController(_ context.Context, args ...any) *StatefulSetController {
	return launch.New(args, "statefulset-controller")
}
