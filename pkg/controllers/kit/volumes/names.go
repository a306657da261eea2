package volumes

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// UniqueName returns the name of a volume of CSI, Fibre Channel or iSCSI, which is the same for every
// pod of the cluster that uses the volume; empty for other types.
func UniqueName(spec Spec) (string, error) {
	inline := spec.Volume
	if inline == nil {
		inline = &corev1.Volume{}
	}
	source := corev1.PersistentVolumeSource{FC: inline.FC}
	if spec.PV != nil {
		source = spec.PV.Spec.PersistentVolumeSource
	}
	switch {
	case source.CSI != nil:
		return fmt.Sprintf("kubernetes.io/csi/%s^%s", source.CSI.Driver, source.CSI.VolumeHandle), nil
	case source.FC != nil:
		return fibreChannelName(source.FC)
	case source.ISCSI != nil:
		return iscsiName(source.ISCSI.TargetPortal, source.ISCSI.IQN, source.ISCSI.Lun), nil
	case inline.ISCSI != nil:
		return iscsiName(inline.ISCSI.TargetPortal, inline.ISCSI.IQN, inline.ISCSI.Lun), nil
	case inline.CSI != nil:
		return "", errors.New("a CSI volume that is defined in a pod has no handle")
	}
	return "", nil
}

func iscsiName(portal, iqn string, lun int32) string {
	return fmt.Sprintf("kubernetes.io/iscsi/%s:%s:%d", portal, iqn, lun)
}

func fibreChannelName(source *corev1.FCVolumeSource) (string, error) {
	switch {
	case len(source.TargetWWNs) > 0 && source.Lun != nil:
		return fmt.Sprintf("kubernetes.io/fc/%v:%d", source.TargetWWNs, *source.Lun), nil
	case len(source.WWIDs) > 0:
		return fmt.Sprintf("kubernetes.io/fc/%v", source.WWIDs), nil
	}
	return "", errors.New("a Fibre Channel volume has neither target WWNs with a LUN nor WWIDs")
}
