package selinuxwarning

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
)

// Properties that pods can be in conflict about.
const (
	labelProperty  = "SELinuxLabel"
	policyProperty = "SELinuxChangePolicy"
)

// conflict is a conflict as one of the two pods sees it.
type conflict struct {
	property string
	pod      types.NamespacedName
	value    string
	with     types.NamespacedName
	other    string
}

// conflicting tells of a conflict. The users of a namespace learn nothing of other namespaces.
func conflicting(pod *corev1.Pod, c conflict) controller.Event {
	reason := c.property + "Conflict"
	if c.pod.Namespace != c.with.Namespace {
		return controller.Normal(pod, reason, "%s%q conflicts with another pod that uses the same volume as this pod with a different %s. If both pods land on the same node, only one of them may access the volume.",
			c.property, c.value, c.property)
	}
	return controller.Normal(pod, reason, "%s %q conflicts with pod %s that uses the same volume as this pod with %s %q. If both pods land on the same node, only one of them may access the volume.",
		c.property, c.value, c.with.Name, c.property, c.other)
}

func ambiguous(pod *corev1.Pod, volume string) controller.Event {
	return controller.Warning(pod, "MultipleSELinuxLabels", "Volume %q is mounted twice with different SELinux labels inside this pod", volume)
}
