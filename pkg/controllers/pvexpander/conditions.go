package pvexpander

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

type conditions = []corev1.PersistentVolumeClaimCondition

// ofResize reports whether a condition is about the expansion of a claim.
func ofResize(c corev1.PersistentVolumeClaimCondition) bool {
	switch c.Type {
	case corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
		corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
		return true
	}
	return false
}

// withoutResize returns the conditions that are not about the expansion, nil if there is none.
func withoutResize(all conditions) conditions {
	others := slices.DeleteFunc(slices.Clone(all), ofResize)
	if len(others) == 0 {
		return nil
	}
	return others
}

// only keeps of the conditions about the expansion just this one.
func only(all conditions, condition corev1.PersistentVolumeClaimCondition) conditions {
	others := slices.DeleteFunc(slices.Clone(all), func(c corev1.PersistentVolumeClaimCondition) bool {
		return ofResize(c) && c.Type != condition.Type
	})
	return with(others, condition)
}

// with puts a condition at the place of the one of its type, unless that has the same status, or at
// the end if there is none. The order of conditions is visible.
func with(all conditions, condition corev1.PersistentVolumeClaimCondition) conditions {
	all = slices.Clone(all)
	at := slices.IndexFunc(all, func(c corev1.PersistentVolumeClaimCondition) bool { return c.Type == condition.Type })
	switch {
	case at < 0:
		return append(all, condition)
	case all[at].Status != condition.Status:
		all[at] = condition
	}
	return all
}
