package legacytokencleaner

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"kcmd.dev/pkg/runtime/informers"
)

// Whatever the cache drops from pods, references to Secrets stay. Pins LSAT-21.
func TestSecretsOf(t *testing.T) {
	ref := func(name string) *corev1.LocalObjectReference { return &corev1.LocalObjectReference{Name: name} }
	variable := func(name string) corev1.EnvVar {
		return corev1.EnvVar{Name: "X", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: *ref(name)}}}
	}
	source := func(name string) corev1.EnvFromSource {
		return corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: *ref(name)}}
	}
	container := func(name string) corev1.Container {
		return corev1.Container{
			Env:     []corev1.EnvVar{{Name: "PLAIN", Value: "no"}, {Name: "FIELD", ValueFrom: &corev1.EnvVarSource{}}, variable(name + "-env")},
			EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: *ref("no")}}, source(name + "-from")},
		}
	}
	for name, test := range map[string]struct {
		spec corev1.PodSpec
		want []string
	}{
		"nothing":                       {corev1.PodSpec{}, nil},
		"LSAT-29: an account is no use": {corev1.PodSpec{ServiceAccountName: "robot"}, nil},
		"pull secrets, empty names":     {corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}, {}}}, []string{"pull"}},
		"init containers":               {corev1.PodSpec{InitContainers: []corev1.Container{container("i")}}, []string{"i-env", "i-from"}},
		"containers":                    {corev1.PodSpec{Containers: []corev1.Container{container("c"), container("d")}}, []string{"c-env", "c-from", "d-env", "d-from"}},
		"ephemeral containers": {corev1.PodSpec{EphemeralContainers: []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon(container("e")),
		}}}, []string{"e-env", "e-from"}},
		"azureFile":           {volume(corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "x"}}), []string{"x"}},
		"cephfs":              {volume(corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{SecretRef: ref("x")}}), []string{"x"}},
		"cinder":              {volume(corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{SecretRef: ref("x")}}), []string{"x"}},
		"flexVolume":          {volume(corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{SecretRef: ref("x")}}), []string{"x"}},
		"rbd":                 {volume(corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{SecretRef: ref("x")}}), []string{"x"}},
		"secret":              {volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x", Items: []corev1.KeyToPath{{Key: "a"}}}}), []string{"x"}},
		"scaleIO":             {volume(corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: ref("x")}}), []string{"x"}},
		"iscsi":               {volume(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: ref("x")}}), []string{"x"}},
		"storageos":           {volume(corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{SecretRef: ref("x")}}), []string{"x"}},
		"csi":                 {volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: ref("x")}}), []string{"x"}},
		"a volume without":    {volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}), nil},
		"a volume of a claim": {volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}}), nil},
		"projected": {volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: *ref("no")}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: *ref("x")}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: *ref("y")}},
		}}}), []string{"x", "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: test.spec}
			want := sets.New(test.want...)
			if got := secretsOf([]*corev1.Pod{pod, {}}); !got.Equal(want) {
				t.Errorf("got %v, want %v", sets.List(got), test.want)
			}
			if _, err := informers.ShrinkPod(pod); err != nil {
				t.Fatal(err)
			}
			if got := secretsOf([]*corev1.Pod{pod}); !got.Equal(want) {
				t.Errorf("of a pod in the cache: got %v, want %v", sets.List(got), test.want)
			}
		})
	}
}

func volume(source corev1.VolumeSource) corev1.PodSpec {
	return corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: source}}}
}
