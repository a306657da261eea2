package attachdetach

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controller"
)

const (
	reasonAttached     = "SuccessfulAttachVolume"
	reasonFailedAttach = "FailedAttachVolume"
)

// The messages of attaches have a common form: what was done, the volume, and the error if there is one.

func volumeAttached(pod podRef, volume string) controller.Event {
	return controller.Normal(pod.reference(), reasonAttached, "%s", message("AttachVolume.Attach succeeded", volume, ""))
}

func attachFailed(pod podRef, volume string, err error) controller.Event {
	return controller.Warning(pod.reference(), reasonFailedAttach, "%s",
		message("AttachVolume.Attach failed", volume, ": "+err.Error()))
}

// notAttachable is for an attach that finds that the driver of the volume does not attach volumes any more.
func notAttachable(pod podRef, volume string) controller.Event {
	return controller.Warning(pod.reference(), reasonFailedAttach, "%s",
		message("AttachVolume.FindAttachablePluginBySpec failed", volume, ""))
}

func multiAttach(pod podRef, volume string, users []podRef) controller.Event {
	return controller.Warning(pod.reference(), reasonFailedAttach, "%s",
		message("Multi-Attach error", volume, multiAttachCause(pod.Namespace, users)))
}

func message(prefix, volume, suffix string) string {
	return fmt.Sprintf("%s for volume %q %s", prefix, volume, suffix)
}

// multiAttachCause says who uses a volume, as far as somebody in a namespace may know.
func multiAttachCause(namespace string, users []podRef) string {
	if len(users) == 0 {
		return "Volume is already exclusively attached to one node and can't be attached to another"
	}
	var names []string
	for _, user := range users {
		if user.Namespace == namespace {
			names = append(names, user.Name)
		}
	}
	others := len(users) - len(names)
	if len(names) == 0 {
		return fmt.Sprintf("Volume is already used by %d pod(s) in different namespaces", others)
	}
	slices.Sort(names)
	cause := "Volume is already used by pod(s) " + strings.Join(names, ", ")
	if others > 0 {
		cause += fmt.Sprintf(" and %d pod(s) in different namespaces", others)
	}
	return cause
}

func (p podRef) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}
