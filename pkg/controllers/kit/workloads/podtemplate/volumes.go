package podtemplate

import corev1 "k8s.io/api/core/v1"

func fillVolume(v *corev1.VolumeSource) {
	if *v == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	switch {
	case v.Secret != nil:
		fillPointer(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case v.ConfigMap != nil:
		fillPointer(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case v.DownwardAPI != nil:
		fillPointer(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		fillDownward(v.DownwardAPI.Items)
	case v.Projected != nil:
		fillProjected(v.Projected)
	case v.HostPath != nil:
		fillPointer(&v.HostPath.Type, corev1.HostPathUnset)
	case v.ISCSI != nil:
		fill(&v.ISCSI.ISCSIInterface, "default")
	case v.RBD != nil:
		fill(&v.RBD.RBDPool, "rbd")
		fill(&v.RBD.RadosUser, "admin")
		fill(&v.RBD.Keyring, "/etc/ceph/keyring")
	case v.AzureDisk != nil:
		fillAzureDisk(v.AzureDisk)
	case v.ScaleIO != nil:
		fill(&v.ScaleIO.StorageMode, "ThinProvisioned")
		fill(&v.ScaleIO.FSType, "xfs")
	case v.Image != nil:
		fill(&v.Image.PullPolicy, defaultPullPolicy(v.Image.Reference))
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		fillClaim(&v.Ephemeral.VolumeClaimTemplate.Spec)
	}
}

func fillClaim(claim *corev1.PersistentVolumeClaimSpec) {
	fillPointer(&claim.VolumeMode, corev1.PersistentVolumeFilesystem)
	roundUp(claim.Resources.Limits)
	roundUp(claim.Resources.Requests)
}

func fillAzureDisk(disk *corev1.AzureDiskVolumeSource) {
	fillPointer(&disk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
	fillPointer(&disk.Kind, corev1.AzureSharedBlobDisk)
	fillPointer(&disk.FSType, "ext4")
	fillPointer(&disk.ReadOnly, false)
}

func fillProjected(projected *corev1.ProjectedVolumeSource) {
	fillPointer(&projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	for i := range projected.Sources {
		source := &projected.Sources[i]
		if source.DownwardAPI != nil {
			fillDownward(source.DownwardAPI.Items)
		}
		if source.ServiceAccountToken != nil {
			fillPointer(&source.ServiceAccountToken.ExpirationSeconds, 60*60)
		}
	}
}

func fillDownward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		if ref := items[i].FieldRef; ref != nil {
			fill(&ref.APIVersion, "v1")
		}
	}
}
