package podtemplates

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// refusedFields cannot be set in the template of a StatefulSet.
var refusedFields = []string{
	"Spec.EphemeralContainers",
	"Spec.ActiveDeadlineSeconds",
	"Spec.Resources.Claims",
	"Spec.Containers.ReadinessProbe.TerminationGracePeriodSeconds",
	"Spec.InitContainers.ReadinessProbe.TerminationGracePeriodSeconds",
}

// gatedFields belong to features that are off unless asked for; the API server drops them.
var gatedFields = []string{
	"Spec.SchedulingGroup",                                           // GenericWorkload
	"Spec.Containers.Lifecycle.StopSignal",                           // ContainerStopSignals
	"Spec.InitContainers.Lifecycle.StopSignal",                       // ContainerStopSignals
	"Spec.Volumes.VolumeSource.Projected.Sources.ClusterTrustBundle", // ClusterTrustBundleProjection
	"Spec.Volumes.VolumeSource.Projected.Sources.PodCertificate",     // PodCertificateRequest
}

// requiredValues are values of fields, given as Type.Field, that must be set.
var requiredValues = map[string]any{
	"Container.Image":                          "i:1",
	"Container.Name":                           "c",
	"ContainerPort.ContainerPort":              1,
	"ContainerResizePolicy.ResourceName":       "cpu",
	"ContainerResizePolicy.RestartPolicy":      "NotRequired",
	"ContainerRestartRule.Action":              "Restart",
	"ContainerRestartRuleOnExitCodes.Operator": "In",
	"ContainerRestartRuleOnExitCodes.Values":   1,
	"EnvVar.Name":                              "a",
	"ConfigMapKeySelector.Key":                 "a",
	"SecretKeySelector.Key":                    "a",
	"LocalObjectReference.Name":                "a",
	"FileKeySelector.VolumeName":               "a",
	"FileKeySelector.Path":                     "a",
	"FileKeySelector.Key":                      "a",
	"ObjectFieldSelector.FieldPath":            "metadata.name",
	"ResourceFieldSelector.Resource":           "limits.cpu",
	"ResourceFieldSelector.ContainerName":      "c",
	"HTTPGetAction.Port":                       intstr.FromInt32(1),
	"TCPSocketAction.Port":                     intstr.FromInt32(1),
	"GRPCAction.Port":                          1,
	"HTTPHeader.Name":                          "a",
	"ExecAction.Command":                       "a",
	"ResourceClaim.Name":                       "a",
	"VolumeDevice.Name":                        "a",
	"VolumeDevice.DevicePath":                  "/a",
	"VolumeMount.Name":                         "a",
	"VolumeMount.MountPath":                    "/a",
	"SeccompProfile.Type":                      "RuntimeDefault",
	"AppArmorProfile.Type":                     "RuntimeDefault",
	"Sysctl.Name":                              "kernel.a",

	"HostAlias.IP":                               "10.0.0.1",
	"LabelSelectorRequirement.Key":               "a",
	"LabelSelectorRequirement.Operator":          "Exists",
	"NodeSelector.NodeSelectorTerms":             corev1.NodeSelectorTerm{},
	"NodeSelectorRequirement.Key":                "a",
	"NodeSelectorRequirement.Operator":           "Exists",
	"PodAffinityTerm.TopologyKey":                "a",
	"PodDNSConfigOption.Name":                    "a",
	"PodOS.Name":                                 "linux",
	"PodReadinessGate.ConditionType":             "a",
	"PodResourceClaim.Name":                      "a",
	"PodSchedulingGate.Name":                     "a",
	"PreferredSchedulingTerm.Weight":             1,
	"Toleration.Key":                             "a",
	"TopologySpreadConstraint.MaxSkew":           1,
	"TopologySpreadConstraint.TopologyKey":       "a",
	"TopologySpreadConstraint.WhenUnsatisfiable": "DoNotSchedule",
	"WeightedPodAffinityTerm.Weight":             1,

	"Volume.Name": "a",
	"AWSElasticBlockStoreVolumeSource.VolumeID":   "a",
	"AzureDiskVolumeSource.DataDiskURI":           "https://a.blob.core.windows.net/a/a.vhd",
	"AzureDiskVolumeSource.DiskName":              "a",
	"AzureFileVolumeSource.SecretName":            "a",
	"AzureFileVolumeSource.ShareName":             "a",
	"CSIVolumeSource.Driver":                      "a",
	"CephFSVolumeSource.Monitors":                 "a",
	"CinderVolumeSource.VolumeID":                 "a",
	"PodSchedulingGroup.PodGroupName":             "a",
	"ClusterTrustBundleProjection.Path":           "a",
	"DownwardAPIVolumeFile.Path":                  "a",
	"EphemeralVolumeSource.VolumeClaimTemplate":   corev1.PersistentVolumeClaimTemplate{},
	"FlexVolumeSource.Driver":                     "a",
	"GCEPersistentDiskVolumeSource.PDName":        "a",
	"GitRepoVolumeSource.Repository":              "a",
	"GlusterfsVolumeSource.EndpointsName":         "a",
	"GlusterfsVolumeSource.Path":                  "a",
	"HostPathVolumeSource.Path":                   "/a",
	"ISCSIVolumeSource.IQN":                       "iqn.2001-04.com.example:a",
	"ISCSIVolumeSource.TargetPortal":              "a",
	"ImageVolumeSource.Reference":                 "i",
	"KeyToPath.Key":                               "a",
	"KeyToPath.Path":                              "a",
	"NFSVolumeSource.Path":                        "/a",
	"NFSVolumeSource.Server":                      "a",
	"PersistentVolumeClaimSpec.AccessModes":       "ReadWriteOnce",
	"PersistentVolumeClaimVolumeSource.ClaimName": "a",
	"PhotonPersistentDiskVolumeSource.PdID":       "a",
	"PodCertificateProjection.KeyType":            "ED25519",
	"PodCertificateProjection.SignerName":         "example.com/a",
	"PortworxVolumeSource.VolumeID":               "a",
	"QuobyteVolumeSource.Registry":                "a:1",
	"QuobyteVolumeSource.Volume":                  "a",
	"RBDVolumeSource.CephMonitors":                "a",
	"RBDVolumeSource.RBDImage":                    "a",
	"ScaleIOVolumeSource.Gateway":                 "a",
	"ScaleIOVolumeSource.SecretRef":               corev1.LocalObjectReference{Name: "a"},
	"ScaleIOVolumeSource.System":                  "a",
	"ScaleIOVolumeSource.VolumeName":              "a",
	"SecretReference.Name":                        "a",
	"SecretVolumeSource.SecretName":               "a",
	"ServiceAccountTokenProjection.Path":          "a",
	"StorageOSVolumeSource.VolumeName":            "a",
	"TypedLocalObjectReference.Kind":              "PersistentVolumeClaim",
	"TypedLocalObjectReference.Name":              "a",
	"TypedObjectReference.Kind":                   "PersistentVolumeClaim",
	"TypedObjectReference.Name":                   "a",
	"VolumeResourceRequirements.Requests":         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1.0001")},
	"VsphereVirtualDiskVolumeSource.VolumePath":   "a",
}

// sampleValues are values of fields, given as Type.Field, that may be set, where the plainest
// value of their type does not do.
var sampleValues = map[string]any{
	"AzureDiskVolumeSource.CachingMode":               "None",
	"AzureDiskVolumeSource.Kind":                      "Shared",
	"ClusterTrustBundleProjection.SignerName":         "example.com/a",
	"PodCertificateProjection.UserAnnotations":        map[string]string{"example.com/a": "b"},
	"Container.ImagePullPolicy":                       "Never",
	"Container.RestartPolicy":                         "Always",
	"Container.TerminationMessagePolicy":              "FallbackToLogsOnError",
	"ContainerPort.Protocol":                          "UDP",
	"HostPathVolumeSource.Type":                       "Directory",
	"ObjectFieldSelector.APIVersion":                  "v1",
	"ResourceFieldSelector.Divisor":                   resource.MustParse("1m"),
	"HTTPGetAction.Scheme":                            "HTTPS",
	"ISCSIVolumeSource.InitiatorName":                 "iqn.2001-04.com.example:b",
	"ImageVolumeSource.PullPolicy":                    "Never",
	"Lifecycle.StopSignal":                            "SIGTERM",
	"PersistentVolumeClaimSpec.VolumeMode":            "Block",
	"PodCertificateProjection.MaxExpirationSeconds":   3600,
	"PodDNSConfig.Nameservers":                        "10.0.0.1",
	"PodSecurityContext.FSGroupChangePolicy":          "Always",
	"PodSecurityContext.SELinuxChangePolicy":          "Recursive",
	"PodSecurityContext.SupplementalGroupsPolicy":     "Merge",
	"PodSpec.DNSPolicy":                               "Default",
	"PodSpec.PreemptionPolicy":                        "Never",
	"PodSpec.RestartPolicy":                           "Always",
	"SecurityContext.ProcMount":                       "Default",
	"ServiceAccountTokenProjection.ExpirationSeconds": 600,
	"Toleration.Effect":                               "NoExecute",
	"Toleration.Operator":                             "Exists",
	"TopologySpreadConstraint.NodeAffinityPolicy":     "Ignore",
	"TopologySpreadConstraint.NodeTaintsPolicy":       "Honor",
	"VolumeMount.MountPropagation":                    "None",
	"VolumeMount.RecursiveReadOnly":                   "Disabled",
	"VolumeResourceRequirements.Limits":               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2.0001")},
	"WindowsSecurityContextOptions.HostProcess":       false,
}

// complete sets what one field of a struct demands of the others, or one of several fields
// of which there must be one.
func complete(object any) {
	if completeUnion(object) {
		return
	}
	switch o := object.(type) {
	case *corev1.Container:
		if len(o.RestartPolicyRules) > 0 {
			o.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
		}
	case *corev1.SeccompProfile:
		if o.LocalhostProfile != nil {
			o.Type = corev1.SeccompProfileTypeLocalhost
		}
	case *corev1.AppArmorProfile:
		if o.LocalhostProfile != nil {
			o.Type = corev1.AppArmorProfileTypeLocalhost
		}
	case *corev1.Toleration:
		if o.TolerationSeconds != nil {
			o.Effect = corev1.TaintEffectNoExecute
		}
	case *corev1.TopologySpreadConstraint:
		if len(o.MatchLabelKeys) > 0 {
			o.LabelSelector = &metav1.LabelSelector{}
		}
	case *corev1.PodAffinityTerm:
		if len(o.MatchLabelKeys)+len(o.MismatchLabelKeys) > 0 {
			o.LabelSelector = &metav1.LabelSelector{}
		}
	case *metav1.LabelSelectorRequirement:
		if len(o.Values) > 0 {
			o.Operator = metav1.LabelSelectorOpIn
		}
	case *corev1.NodeSelectorRequirement:
		if len(o.Values) > 0 {
			o.Operator = corev1.NodeSelectorOpIn
		}
	case *corev1.NodeSelectorTerm:
		for i := range o.MatchFields {
			o.MatchFields[i] = corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}
		}
	case *corev1.ISCSIVolumeSource:
		if o.DiscoveryCHAPAuth || o.SessionCHAPAuth {
			o.SecretRef = &corev1.LocalObjectReference{}
		}
	}
}

// completeUnion sets one of the fields of a struct of which there must be one.
func completeUnion(object any) bool {
	switch o := object.(type) {
	case *corev1.ProbeHandler:
		if *o == (corev1.ProbeHandler{}) {
			o.Exec = &corev1.ExecAction{}
		}
	case *corev1.LifecycleHandler:
		if *o == (corev1.LifecycleHandler{}) {
			o.Exec = &corev1.ExecAction{}
		}
	case *corev1.ContainerRestartRule:
		o.ExitCodes = &corev1.ContainerRestartRuleOnExitCodes{}
	case *corev1.EnvVarSource:
		if *o == (corev1.EnvVarSource{}) {
			o.FieldRef = &corev1.ObjectFieldSelector{}
		}
	case *corev1.EnvFromSource:
		if o.ConfigMapRef == nil && o.SecretRef == nil {
			o.ConfigMapRef = &corev1.ConfigMapEnvSource{}
		}
	case *corev1.PodResourceClaim:
		if o.ResourceClaimName == nil && o.ResourceClaimTemplateName == nil {
			o.ResourceClaimName = ptr.To("a")
		}
	case *corev1.DownwardAPIVolumeFile:
		if o.FieldRef == nil && o.ResourceFieldRef == nil {
			o.FieldRef = &corev1.ObjectFieldSelector{}
		}
	case *corev1.VolumeProjection:
		if *o == (corev1.VolumeProjection{}) {
			o.Secret = &corev1.SecretProjection{}
		}
	case *corev1.ClusterTrustBundleProjection:
		if o.Name == nil && o.SignerName == nil {
			o.Name = ptr.To("a")
		}
		if o.LabelSelector != nil {
			o.Name, o.SignerName = nil, ptr.To("example.com/a")
		}
	case *corev1.PodCertificateProjection:
		if o.KeyPath == "" && o.CertificateChainPath == "" {
			o.CredentialBundlePath = "a"
		}
	case *corev1.FlockerVolumeSource:
		if *o == (corev1.FlockerVolumeSource{}) {
			o.DatasetName = "a"
		}
	case *corev1.FCVolumeSource:
		if len(o.WWIDs) == 0 {
			o.TargetWWNs, o.Lun = []string{"a"}, ptr.To[int32](1)
		}
	default:
		return false
	}
	return true
}

// completeTemplate sets what the parts of a template refer to.
func completeTemplate(t *corev1.PodTemplateSpec) {
	t.Labels = map[string]string{"app": "web"}
	spec := &t.Spec
	if len(spec.Containers) == 0 {
		spec.Containers = []corev1.Container{{Name: "c", Image: "i:1"}}
	}
	if spec.HostNetwork {
		spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 1}}
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		c.Name = "i"
		if c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil || c.Lifecycle != nil {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		completeReferences(spec, c)
	}
	for i := range spec.Containers {
		completeReferences(spec, &spec.Containers[i])
	}
}

// completeReferences sets what a container refers to.
func completeReferences(spec *corev1.PodSpec, c *corev1.Container) {
	volume := corev1.Volume{Name: "a"}
	for _, e := range c.Env {
		if e.ValueFrom != nil && e.ValueFrom.FileKeyRef != nil {
			volume.EmptyDir = &corev1.EmptyDirVolumeSource{}
			spec.Volumes = []corev1.Volume{volume}
		}
	}
	if len(c.VolumeDevices) > 0 {
		volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "a"}
		spec.Volumes = []corev1.Volume{volume}
	}
	if len(c.VolumeMounts) > 0 {
		spec.Volumes = []corev1.Volume{volume}
	}
	if len(c.Resources.Claims) > 0 {
		spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "a", ResourceClaimName: ptr.To("a")}}
	}
	if c.Lifecycle != nil && c.Lifecycle.StopSignal != nil {
		spec.OS = &corev1.PodOS{Name: corev1.Linux}
	}
}
