package statefulset

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// withDefaults returns a template with what the API server fills in where a field of a pod
// template is not set. It serves comparison only: a field that got its default after a
// revision was stored must not look like a change. What is not in here causes, at worst,
// an update of pods that would not have been needed.
func withDefaults(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	filled := template.DeepCopy()
	spec := &filled.Spec
	fill(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	fill(&spec.DNSPolicy, corev1.DNSClusterFirst)
	fill(&spec.SchedulerName, corev1.DefaultSchedulerName)
	fillPointer(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	fillPointer(&spec.SecurityContext, corev1.PodSecurityContext{})
	// The name has an older spelling, which the API keeps equal.
	fill(&spec.DeprecatedServiceAccount, spec.ServiceAccountName)
	fill(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	for i := range spec.InitContainers {
		fillContainer(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		fillContainer(&spec.Containers[i])
	}
	for i := range spec.Volumes {
		fillVolume(&spec.Volumes[i].VolumeSource)
	}
	return filled
}

func fill[T comparable](field *T, value T) {
	var unset T
	if *field == unset {
		*field = value
	}
}

func fillPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func fillContainer(c *corev1.Container) {
	fill(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	fill(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	fill(&c.ImagePullPolicy, defaultPullPolicy(c.Image))
	for i := range c.Ports {
		fill(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			fill(&from.FieldRef.APIVersion, "v1")
		}
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		fillProbe(probe)
	}
	if c.Lifecycle != nil {
		fillHandler(c.Lifecycle.PostStart)
		fillHandler(c.Lifecycle.PreStop)
	}
	if c.SecurityContext != nil {
		fillPointer(&c.SecurityContext.ProcMount, corev1.DefaultProcMount)
	}
}

// defaultPullPolicy is Always for an image without a tag or digest, or with the tag latest.
func defaultPullPolicy(image string) corev1.PullPolicy {
	if strings.Contains(image, "@") {
		return corev1.PullIfNotPresent
	}
	name := image[strings.LastIndexByte(image, '/')+1:]
	_, tag, tagged := strings.Cut(name, ":")
	if !tagged || tag == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func fillProbe(probe *corev1.Probe) {
	if probe == nil {
		return
	}
	fill(&probe.TimeoutSeconds, 1)
	fill(&probe.PeriodSeconds, 10)
	fill(&probe.SuccessThreshold, 1)
	fill(&probe.FailureThreshold, 3)
	fillHTTPGet(probe.HTTPGet)
	if probe.GRPC != nil {
		fillPointer(&probe.GRPC.Service, "")
	}
}

func fillHandler(handler *corev1.LifecycleHandler) {
	if handler != nil {
		fillHTTPGet(handler.HTTPGet)
	}
}

func fillHTTPGet(get *corev1.HTTPGetAction) {
	if get == nil {
		return
	}
	fill(&get.Path, "/")
	fill(&get.Scheme, corev1.URISchemeHTTP)
}

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
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		fillPointer(&v.Ephemeral.VolumeClaimTemplate.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	}
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
