package informers

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// ShrunkMarker is the field manager that marks objects which are not complete, so that a
// client can refuse to send one.
const ShrunkMarker = "kcmd.dev/shrunk"

// shrunkFields is the managedFields of every shrunk object: one array for all of them. It
// is never changed.
var shrunkFields = []metav1.ManagedFieldsEntry{{Manager: ShrunkMarker}}

// Shrunk reports whether obj lacks parts its original has, so that it must not be written
// back. Copies of a shrunk object are shrunk. A user may call himself by the name of the marker:
// then the API server has stored what he did.
func Shrunk(obj any) bool {
	object, err := meta.Accessor(obj)
	if err != nil {
		return false
	}
	fields := object.GetManagedFields()
	return len(fields) == 1 && fields[0].Manager == ShrunkMarker && fields[0].Operation == ""
}

// Transforms maps resources to what is done to their objects before they are stored. A
// transform may change the object in place; it must accept its own result.
type Transforms map[schema.GroupVersionResource]cache.TransformFunc

// defaultTransforms returns what is dropped from each kind, besides managedFields.
//
// Only pods are shrunk: there are more of them than of any other kind, and no controller here needs
// most of what a kubelet does. Kinds that carry a pod template keep it, since it is compared and
// copied; nodes keep all, since their status is updated with whole objects. Of all of these, those
// that are alike share what is equal.
//
// What pods keep, and for whom. All that is not named below as dropped is kept.
//
//	metadata                  everybody (annotations without the last applied configuration)
//	status                    workloads, endpoints, HPA, quota, disruption, node lifecycle
//	nodeName, hostname, subdomain, hostNetwork    endpoints, StatefulSet, DaemonSet
//	volumes                   StatefulSet, attach/detach, PVC protection, ephemeral volumes, SELinux
//	affinity                  DaemonSet (target node), quota (scope CrossNamespacePodAffinity)
//	tolerations               taint eviction
//	activeDeadlineSeconds, priorityClassName, overhead    quota scopes and usage
//	restartPolicy, terminationGracePeriodSeconds, schedulingGates, readinessGates, resourceClaims
//	imagePullSecrets          token cleaner: which secrets are in use
//	securityContext           SELinux
//	containers (all lists):
//	  name, image, resources, resizePolicy, restartPolicy    quota, HPA, Job
//	  ports                   endpoints
//	  securityContext         SELinux
//	  volumeMounts, volumeDevices: the name                  SELinux
//	  env, envFrom: what refers to a secret                  token cleaner
//
// Dropped are, of containers, command, args, working directory, other environment
// variables, probes, lifecycle, mount and device paths, termination messages and the pull
// policy; of volumes, the items of config maps, secrets and the downward API, and the
// projected sources that are not secrets; of pods, DNS settings, host aliases and
// service links, and the volume with the token of the service account, whose name is
// another in each pod, unless a container has SELinux options of its own; of container
// statuses, the mounts, the images, the ID of the container, since when it runs, and how the
// one before it ended.
func defaultTransforms() Transforms { return transformsWith(newPodSharing()) }

func transformsWith(shared *podSharing) Transforms {
	core, apps, batch := corev1.SchemeGroupVersion.WithResource, appsv1.SchemeGroupVersion.WithResource, batchv1.SchemeGroupVersion.WithResource
	return Transforms{
		core("pods"):                   shared.shrink,
		core("nodes"):                  shareWithSiblings[corev1.Node](),
		core("services"):               shareWithSiblings[corev1.Service](),
		core("persistentvolumes"):      shareWithSiblings[corev1.PersistentVolume](),
		core("persistentvolumeclaims"): shareWithSiblings[corev1.PersistentVolumeClaim](),
		core("replicationcontrollers"): shareWithSiblings[corev1.ReplicationController](),
		apps("deployments"):            shareWithSiblings[appsv1.Deployment](),
		apps("replicasets"):            shareWithSiblings[appsv1.ReplicaSet](),
		apps("statefulsets"):           shareWithSiblings[appsv1.StatefulSet](),
		apps("daemonsets"):             shareWithSiblings[appsv1.DaemonSet](),
		batch("jobs"):                  shareWithSiblings[batchv1.Job](),
		batch("cronjobs"):              shareWithSiblings[batchv1.CronJob](),
	}
}

// stripManagedFields drops managedFields, the largest part of many objects, which no
// controller reads. The result can be written back: the API server keeps the managedFields of
// an object that is updated without any.
func stripManagedFields(obj any) (any, error) {
	if object, err := meta.Accessor(obj); err == nil {
		object.SetManagedFields(nil)
	}
	return obj, nil
}

// ShrinkPod drops from a pod what no controller reads. See defaultTransforms.
func ShrinkPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil // a tombstone of something stored before
	}
	pod.ManagedFields = shrunkFields
	shrinkMetadata(&pod.ObjectMeta)
	shrinkSpec(&pod.Spec)
	shrinkStatus(&pod.Status)
	return pod, nil
}

func shrinkMetadata(m *metav1.ObjectMeta) { delete(m.Annotations, corev1.LastAppliedConfigAnnotation) }

func shrinkSpec(spec *corev1.PodSpec) {
	dropTokenVolume(spec)
	for n := range spec.InitContainers {
		shrinkContainer(&spec.InitContainers[n])
	}
	for n := range spec.Containers {
		shrinkContainer(&spec.Containers[n])
	}
	for n := range spec.EphemeralContainers {
		// The common fields are the same and in the same order, as the API guarantees.
		shrinkContainer((*corev1.Container)(&spec.EphemeralContainers[n].EphemeralContainerCommon))
	}
	for n := range spec.Volumes {
		shrinkVolume(&spec.Volumes[n].VolumeSource)
	}
	spec.HostAliases = nil
	spec.DNSConfig = nil
	spec.DNSPolicy = ""
	spec.EnableServiceLinks = nil
}

func shrinkStatus(s *corev1.PodStatus) {
	for _, statuses := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for n := range statuses {
			shrinkContainerStatus(&statuses[n])
		}
	}
}

func shrinkContainer(c *corev1.Container) {
	c.Command = nil
	c.Args = nil
	c.WorkingDir = ""
	c.Env = secretVariables(c.Env)
	c.EnvFrom = secretSources(c.EnvFrom)
	for n := range c.VolumeMounts {
		c.VolumeMounts[n] = corev1.VolumeMount{Name: c.VolumeMounts[n].Name}
	}
	for n := range c.VolumeDevices {
		c.VolumeDevices[n] = corev1.VolumeDevice{Name: c.VolumeDevices[n].Name}
	}
	c.LivenessProbe = nil
	c.ReadinessProbe = nil
	c.StartupProbe = nil
	c.Lifecycle = nil
	c.TerminationMessagePath = ""
	c.TerminationMessagePolicy = ""
	c.ImagePullPolicy = ""
}

// runs is the state of every container that runs. It is never changed.
var runs = &corev1.ContainerStateRunning{}

func shrinkContainerStatus(s *corev1.ContainerStatus) {
	s.VolumeMounts = nil
	s.Image, s.ImageID, s.ContainerID = "", "", ""
	s.LastTerminationState = corev1.ContainerState{}
	if s.State.Running != nil {
		s.State.Running = runs
	}
}

// secretVariables returns the variables that refer to a secret, without what only a kubelet
// needs. It allocates nothing if there is none.
func secretVariables(env []corev1.EnvVar) []corev1.EnvVar {
	var kept []corev1.EnvVar
	for _, e := range env {
		if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
			continue
		}
		kept = append(kept, corev1.EnvVar{Name: e.Name, ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: e.ValueFrom.SecretKeyRef,
		}})
	}
	return kept
}

func secretSources(sources []corev1.EnvFromSource) []corev1.EnvFromSource {
	var kept []corev1.EnvFromSource
	for _, source := range sources {
		if source.SecretRef != nil {
			kept = append(kept, corev1.EnvFromSource{SecretRef: source.SecretRef})
		}
	}
	return kept
}

// shrinkVolume keeps the type of the volume and what it refers to.
func shrinkVolume(v *corev1.VolumeSource) {
	switch {
	case v.Projected != nil:
		v.Projected.Sources = secretProjections(v.Projected.Sources)
	case v.Secret != nil:
		v.Secret.Items = nil
	case v.ConfigMap != nil:
		v.ConfigMap.Items = nil
	case v.DownwardAPI != nil:
		v.DownwardAPI.Items = nil
	}
}

func secretProjections(sources []corev1.VolumeProjection) []corev1.VolumeProjection {
	var kept []corev1.VolumeProjection
	for _, source := range sources {
		if source.Secret != nil {
			source.Secret.Items = nil
			kept = append(kept, corev1.VolumeProjection{Secret: source.Secret})
		}
	}
	return kept
}
