package podtemplate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// WithDefaults returns a template with the defaults that the API server sets. It is for
// comparison only: a field that got its default after a revision was stored must not look like
// a change. A default that is missing here causes, at worst, an unnecessary update of pods.
func WithDefaults(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	filled := template.DeepCopy()
	spec := &filled.Spec
	fill(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	fill(&spec.DNSPolicy, corev1.DNSClusterFirst)
	fill(&spec.SchedulerName, corev1.DefaultSchedulerName)
	fillPointer(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	fillPointer(&spec.SecurityContext, corev1.PodSecurityContext{})
	// The API server keeps the deprecated field equal.
	fill(&spec.DeprecatedServiceAccount, spec.ServiceAccountName)
	fill(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	roundUp(spec.Overhead)
	if spec.Resources != nil {
		fillResources(spec.Resources)
	}
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
		fillSource(c.Env[i].ValueFrom)
	}
	fillResources(&c.Resources)
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		fillProbe(probe)
	}
	if c.Lifecycle != nil {
		fillHandler(c.Lifecycle.PostStart)
		fillHandler(c.Lifecycle.PreStop)
	}
}

func fillSource(from *corev1.EnvVarSource) {
	if from == nil {
		return
	}
	if from.FieldRef != nil {
		fill(&from.FieldRef.APIVersion, "v1")
	}
	if from.FileKeyRef != nil {
		fillPointer(&from.FileKeyRef.Optional, false)
	}
}

func fillResources(r *corev1.ResourceRequirements) {
	roundUp(r.Limits)
	roundUp(r.Requests)
}

// roundUp rounds quantities up to whole thousandths.
func roundUp(amounts corev1.ResourceList) {
	for name, amount := range amounts {
		amount.RoundUp(resource.Milli)
		amounts[name] = amount
	}
}

// defaultPullPolicy returns Always for an image without tag or digest, or with the tag latest.
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
