package informers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

var seLinux = &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c1,c2"}}

func TestDropTokenVolume(t *testing.T) {
	const token = "kube-api-access-abcde"
	tokenSource := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}
	projected := func(name string, sources ...corev1.VolumeProjection) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: sources},
		}}
	}
	data := corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	both := []string{"data", token}
	for name, tc := range map[string]struct {
		volumes []corev1.Volume
		change  func(*corev1.PodSpec)
		want    []string
	}{
		"the token":       {volumes: []corev1.Volume{data, projected(token, tokenSource)}, want: []string{"data"}},
		"nothing else":    {volumes: []corev1.Volume{projected(token, tokenSource)}, want: nil},
		"no token":        {volumes: []corev1.Volume{data}, want: []string{"data"}},
		"with a secret":   {volumes: []corev1.Volume{data, projected(token, tokenSource, corev1.VolumeProjection{Secret: &corev1.SecretProjection{}})}, want: both},
		"of another type": {volumes: []corev1.Volume{data, {Name: token, VolumeSource: data.VolumeSource}}, want: both},
		"of another name": {volumes: []corev1.Volume{data, projected("token", tokenSource)}, want: []string{"data", "token"}},
		"SELinux options of a container": {
			volumes: []corev1.Volume{data, projected(token, tokenSource)},
			change:  func(s *corev1.PodSpec) { s.Containers[0].SecurityContext = seLinux }, want: both,
		},
		"SELinux options of an init container": {
			volumes: []corev1.Volume{data, projected(token, tokenSource)},
			change:  func(s *corev1.PodSpec) { s.InitContainers[0].SecurityContext = seLinux }, want: both,
		},
		"SELinux options of an ephemeral container": {
			volumes: []corev1.Volume{data, projected(token, tokenSource)},
			change:  func(s *corev1.PodSpec) { s.EphemeralContainers[0].SecurityContext = seLinux }, want: both,
		},
		"SELinux options of the pod": {
			volumes: []corev1.Volume{data, projected(token, tokenSource)},
			change: func(s *corev1.PodSpec) {
				s.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: seLinux.SELinuxOptions}
			},
			want: []string{"data"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			mounts := func() (all []corev1.VolumeMount) {
				for _, v := range tc.volumes {
					all = append(all, corev1.VolumeMount{Name: v.Name})
				}
				return all
			}
			spec := &corev1.PodSpec{
				Volumes:        tc.volumes,
				Containers:     []corev1.Container{{VolumeMounts: mounts()}},
				InitContainers: []corev1.Container{{VolumeMounts: mounts()}},
				EphemeralContainers: []corev1.EphemeralContainer{{
					EphemeralContainerCommon: corev1.EphemeralContainerCommon{VolumeMounts: mounts()},
				}},
			}
			if tc.change != nil {
				tc.change(spec)
			}
			dropTokenVolume(spec)
			var volumes []string
			for _, v := range spec.Volumes {
				volumes = append(volumes, v.Name)
			}
			if diff := cmp.Diff(tc.want, volumes); diff != "" {
				t.Errorf("volumes (-want +got):\n%s", diff)
			}
			for _, got := range [][]corev1.VolumeMount{
				spec.Containers[0].VolumeMounts, spec.InitContainers[0].VolumeMounts, spec.EphemeralContainers[0].VolumeMounts,
			} {
				var names []string
				for _, m := range got {
					names = append(names, m.Name)
				}
				if diff := cmp.Diff(tc.want, names); diff != "" {
					t.Errorf("mounts (-want +got):\n%s", diff)
				}
			}
		})
	}
}
