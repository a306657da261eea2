package resourceclaim

import (
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controller"
)

// claimFailed says that the claim for an entry of a pod or a PodGroup could not be generated. What
// an entry is called depends on which of the two it is.
func claimFailed(about runtime.Object, kind, entry string, err error) controller.Event {
	return controller.Warning(about, "FailedResourceClaimCreation", "%s %s: %v", kind, entry, err)
}
