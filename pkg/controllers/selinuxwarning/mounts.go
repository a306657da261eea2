package selinuxwarning

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// mounts has the distinct labels that the containers of a pod mount each volume with, by the name of
// the volume in the pod. A volume that is mounted without any has none.
type mounts map[string][]label

// mountsOf collects the labels of a pod. The options of a container replace those of its pod as a
// whole. Volumes that are used as devices do not count.
func mountsOf(pod *corev1.Pod) mounts {
	m := mounts{}
	var ofPod *corev1.SELinuxOptions
	if c := pod.Spec.SecurityContext; c != nil {
		ofPod = c.SELinuxOptions
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			m.add(containers[i].VolumeMounts, containers[i].SecurityContext, ofPod)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		container := &pod.Spec.EphemeralContainers[i]
		m.add(container.VolumeMounts, container.SecurityContext, ofPod)
	}
	return m
}

func (m mounts) add(all []corev1.VolumeMount, context *corev1.SecurityContext, ofPod *corev1.SELinuxOptions) {
	options := ofPod
	if context != nil && context.SELinuxOptions != nil {
		options = context.SELinuxOptions
	}
	for i := range all {
		name := all[i].Name
		labels := m[name]
		if options != nil && !slices.Contains(labels, labelOf(options)) {
			labels = append(labels, labelOf(options))
		}
		m[name] = labels
	}
}
