package legacytokencleaner

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// secretsOf returns the names of the Secrets that pods refer to, without those that their
// volume claims refer to.
func secretsOf(pods []*corev1.Pod) sets.Set[string] {
	names := sets.New[string]()
	for _, pod := range pods {
		for _, ref := range pod.Spec.ImagePullSecrets {
			names.Insert(ref.Name)
		}
		for n := range pod.Spec.InitContainers {
			insertOfContainer(names, &pod.Spec.InitContainers[n])
		}
		for n := range pod.Spec.Containers {
			insertOfContainer(names, &pod.Spec.Containers[n])
		}
		for n := range pod.Spec.EphemeralContainers {
			// The common fields are the same in the same order, by contract of the API.
			insertOfContainer(names, (*corev1.Container)(&pod.Spec.EphemeralContainers[n].EphemeralContainerCommon))
		}
		for n := range pod.Spec.Volumes {
			insertOfVolume(names, &pod.Spec.Volumes[n].VolumeSource)
		}
	}
	return names.Delete("")
}

func insertOfContainer(names sets.Set[string], c *corev1.Container) {
	for _, source := range c.EnvFrom {
		if source.SecretRef != nil {
			names.Insert(source.SecretRef.Name)
		}
	}
	for _, variable := range c.Env {
		if from := variable.ValueFrom; from != nil && from.SecretKeyRef != nil {
			names.Insert(from.SecretKeyRef.Name)
		}
	}
}

func insertOfVolume(names sets.Set[string], v *corev1.VolumeSource) {
	switch {
	case v.AzureFile != nil:
		names.Insert(v.AzureFile.SecretName)
	case v.Secret != nil:
		names.Insert(v.Secret.SecretName)
	case v.ScaleIO != nil:
		insertReference(names, v.ScaleIO.SecretRef)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			if source.Secret != nil {
				names.Insert(source.Secret.Name)
			}
		}
	default:
		insertReference(names, optionalReference(v))
	}
}

// optionalReference returns the reference of a volume source that may have one.
func optionalReference(v *corev1.VolumeSource) *corev1.LocalObjectReference {
	switch {
	case v.CephFS != nil:
		return v.CephFS.SecretRef
	case v.Cinder != nil:
		return v.Cinder.SecretRef
	case v.FlexVolume != nil:
		return v.FlexVolume.SecretRef
	case v.RBD != nil:
		return v.RBD.SecretRef
	case v.ISCSI != nil:
		return v.ISCSI.SecretRef
	case v.StorageOS != nil:
		return v.StorageOS.SecretRef
	case v.CSI != nil:
		return v.CSI.NodePublishSecretRef
	}
	return nil
}

func insertReference(names sets.Set[string], ref *corev1.LocalObjectReference) {
	if ref != nil {
		names.Insert(ref.Name)
	}
}
