package informers

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// tokenVolumePrefix begins the name of the volume that admission adds to each pod for the
// token of its service account.
const tokenVolumePrefix = "kube-api-access-"

// dropTokenVolume drops the volume with the token of the service account and its mounts. It
// refers to nothing that a controller needs, and its generated name is the only difference
// between the containers and volumes of one template. It stays where containers may mount it
// under different SELinux labels, which is reported with its name.
func dropTokenVolume(spec *corev1.PodSpec) {
	token := slices.IndexFunc(spec.Volumes, isTokenVolume)
	if token < 0 || anyContainer(spec, hasSELinuxOptions) {
		return
	}
	name := spec.Volumes[token].Name
	spec.Volumes = without(spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for n := range containers {
			dropMount(&containers[n].VolumeMounts, name)
		}
	}
	for n := range spec.EphemeralContainers {
		dropMount(&spec.EphemeralContainers[n].VolumeMounts, name)
	}
}

func isTokenVolume(v corev1.Volume) bool {
	return v.Projected != nil && strings.HasPrefix(v.Name, tokenVolumePrefix) &&
		!slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.Secret != nil })
}

func dropMount(mounts *[]corev1.VolumeMount, volume string) {
	*mounts = without(*mounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
}

// without deletes in place; it returns nil if nothing is left.
func without[T any](all []T, unwanted func(T) bool) []T {
	if all = slices.DeleteFunc(all, unwanted); len(all) == 0 {
		return nil
	}
	return all
}

func hasSELinuxOptions(c *corev1.SecurityContext) bool { return c != nil && c.SELinuxOptions != nil }

// anyContainer reports whether the security context of any container is as asked.
func anyContainer(spec *corev1.PodSpec, is func(*corev1.SecurityContext) bool) bool {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for n := range containers {
			if is(containers[n].SecurityContext) {
				return true
			}
		}
	}
	for n := range spec.EphemeralContainers {
		if is(spec.EphemeralContainers[n].SecurityContext) {
			return true
		}
	}
	return false
}
