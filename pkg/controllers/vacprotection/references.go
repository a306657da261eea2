package vacprotection

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// references holds the names of the classes that an object refers to. Unused elements are empty.
// Arrays are comparable, so most updates cost one comparison.
type references [3]string

func ofVolume(volume *corev1.PersistentVolume) references {
	return references{ptr.Deref(volume.Spec.VolumeAttributesClassName, "")}
}

func ofClaim(claim *corev1.PersistentVolumeClaim) references {
	all := references{
		ptr.Deref(claim.Spec.VolumeAttributesClassName, ""),
		ptr.Deref(claim.Status.CurrentVolumeAttributesClassName, ""),
	}
	if modify := claim.Status.ModifyVolumeStatus; modify != nil {
		all[2] = modify.TargetVolumeAttributesClassName
	}
	return all
}

// without returns the distinct names in r that are not in others.
func (r references) without(others references) []string {
	if r == others {
		return nil
	}
	var names []string
	for i, name := range r {
		if name != "" && !others.has(name) && !r.before(i).has(name) {
			names = append(names, name)
		}
	}
	return names
}

func (r references) has(name string) bool { return r[0] == name || r[1] == name || r[2] == name }

// before returns the references before index i.
func (r references) before(i int) references {
	clear(r[i:])
	return r
}

// classKeys is the index function of classIndex.
func classKeys(obj any) ([]string, error) {
	switch object := obj.(type) {
	case *corev1.PersistentVolume:
		return ofVolume(object).without(references{}), nil
	case *corev1.PersistentVolumeClaim:
		return ofClaim(object).without(references{}), nil
	}
	return nil, nil
}
