package selinuxwarning

import (
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controller"
)

const consequence = " If both pods land on the same node, only one of them may access the volume."

// conflicting reports a conflict. The users of a namespace learn nothing of other namespaces.
func conflicting(pod *corev1.Pod, c conflict) controller.Event {
	reason := c.property + "Conflict"
	if c.pod.Namespace != c.with.Namespace {
		return controller.Normal(pod, reason,
			"%s%q conflicts with another pod that uses the same volume as this pod with a different %s."+consequence,
			c.property, c.value, c.property)
	}
	return controller.Normal(pod, reason,
		"%s %q conflicts with pod %s that uses the same volume as this pod with %s %q."+consequence,
		c.property, c.value, c.with.Name, c.property, c.other)
}

func ambiguous(pod *corev1.Pod, volume string) controller.Event {
	return controller.Warning(pod, "MultipleSELinuxLabels",
		"Volume %q is mounted twice with different SELinux labels inside this pod", volume)
}
