package volumes_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/volumes"
)

func TestUniqueName(t *testing.T) {
	inline := func(source corev1.VolumeSource) volumes.Spec {
		return volumes.Spec{Volume: &corev1.Volume{Name: "data", VolumeSource: source}, Inline: true}
	}
	bound := func(source corev1.PersistentVolumeSource) volumes.Spec {
		return volumes.Spec{PV: &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}}}
	}
	wwns := &corev1.FCVolumeSource{TargetWWNs: []string{"w1", "w2"}, Lun: ptr.To[int32](0), WWIDs: []string{"i1"}}
	for name, tc := range map[string]struct {
		spec  volumes.Spec
		want  string
		fails bool
	}{
		"SEL-21a, SEL-31: CSI":   {spec: bound(corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: "a/b"}}), want: "kubernetes.io/csi/example.com^a/b"},
		"SEL-21a: CSI in a pod":  {spec: inline(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "example.com"}}), fails: true},
		"SEL-21a: FC":            {spec: bound(corev1.PersistentVolumeSource{FC: wwns}), want: "kubernetes.io/fc/[w1 w2]:0"},
		"SEL-21a: FC in a pod":   {spec: inline(corev1.VolumeSource{FC: wwns}), want: "kubernetes.io/fc/[w1 w2]:0"},
		"SEL-21a: FC by WWIDs":   {spec: bound(corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{TargetWWNs: []string{"w"}, WWIDs: []string{"i1", "i2"}}}), want: "kubernetes.io/fc/[i1 i2]"},
		"SEL-21a: FC of nothing": {spec: bound(corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{TargetWWNs: []string{"w"}}}), fails: true},
		"SEL-21a: iSCSI": {spec: bound(corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: "iqn.a", Lun: 1}}),
			want: "kubernetes.io/iscsi/10.0.0.1:3260:iqn.a:1"},
		"SEL-21a, SEL-31: iSCSI in a pod": {spec: inline(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: "iqn.a", Lun: 1}}),
			want: "kubernetes.io/iscsi/10.0.0.1:3260:iqn.a:1"},
		"SEL-30: NFS":                {spec: bound(corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}})},
		"SEL-30: directory in a pod": {spec: inline(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := volumes.UniqueName(tc.spec)
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
