package informers

import (
	"maps"
	"slices"
	"sync"
	"unique"
	"unsafe"
	"weak"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sharing lets pods that came from one template share the parts that are equal in all of
// them. Decoded one by one, each pod brings its own copy of the same resources, labels, ports
// and tolerations, which is most of a shrunk pod.
//
//  1. Objects in a cache are never changed, so a part may belong to many of them.
//  2. A pod is compared with one relative: the last one with the same generateName, else the
//     last one with the same image. Parts that differ are not shared.
//  3. References to relatives are weak: sharing keeps no pod alive that the cache has
//     dropped.
type sharing struct {
	mu      sync.Mutex
	byName  relatives
	byImage relatives
}

func newSharing() *sharing { return &sharing{byName: newRelatives(), byImage: newRelatives()} }

// shrinkPod is ShrinkPod followed by sharing.
func (s *sharing) shrinkPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || Shrunk(pod) {
		return obj, nil // a tombstone, or in the cache already
	}
	if _, err := ShrinkPod(pod); err != nil {
		return nil, err
	}
	if relative := s.meet(pod); relative != nil {
		shareParts(pod, relative)
	}
	pod.Spec.NodeName = canonical(pod.Spec.NodeName)
	pod.Status.HostIP = canonical(pod.Status.HostIP)
	return pod, nil
}

// meet returns the relative of a pod, nil if there is none, and remembers the pod for those
// that come after it.
func (s *sharing) meet(pod *corev1.Pod) *corev1.Pod {
	self := weak.Make(pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	var relative *corev1.Pod
	if pod.GenerateName != "" {
		relative = s.byName.swap(family{pod.Namespace, pod.GenerateName}, self)
	}
	if len(pod.Spec.Containers) > 0 {
		if other := s.byImage.swap(family{pod.Namespace, pod.Spec.Containers[0].Image}, self); relative == nil {
			relative = other
		}
	}
	return relative
}

// family is a namespace and a generateName or an image.
type family struct{ namespace, name string }

// relatives are the newest pod of each family. Families without pods are removed whenever the
// number of families has doubled.
type relatives struct {
	newest  map[family]weak.Pointer[corev1.Pod]
	sweepAt int
}

const firstSweep = 256

func newRelatives() relatives {
	return relatives{newest: map[family]weak.Pointer[corev1.Pod]{}, sweepAt: firstSweep}
}

func (r *relatives) swap(f family, pod weak.Pointer[corev1.Pod]) *corev1.Pod {
	previous, known := r.newest[f]
	r.newest[f] = pod
	if known {
		return previous.Value()
	}
	if len(r.newest) >= r.sweepAt {
		maps.DeleteFunc(r.newest, func(_ family, p weak.Pointer[corev1.Pod]) bool { return p.Value() == nil })
		r.sweepAt = max(firstSweep, 2*len(r.newest))
	}
	return nil
}

// canonical returns the one copy of a string that many pods have, such as the name of a node.
func canonical[T ~string](s T) T {
	if s == "" {
		return s
	}
	return T(unique.Make(string(s)).Value())
}

// shareParts replaces parts of pod by those of relative that are equal to them.
func shareParts(pod, relative *corev1.Pod) {
	shareMeta(&pod.ObjectMeta, &relative.ObjectMeta)
	own, other := &pod.Spec, &relative.Spec
	shareContainers(&own.Containers, other.Containers)
	shareContainers(&own.InitContainers, other.InitContainers)
	shareVolumes(&own.Volumes, other.Volumes)
	shareMap(&own.NodeSelector, other.NodeSelector)
	shareSlice(&own.Tolerations, other.Tolerations, equalTolerations)
	shareDeep(&own.Affinity, other.Affinity)
	shareDeep(&own.SecurityContext, other.SecurityContext)
	sharePointer(&own.TerminationGracePeriodSeconds, other.TerminationGracePeriodSeconds)
	sharePointer(&own.ActiveDeadlineSeconds, other.ActiveDeadlineSeconds)
	sharePointer(&own.AutomountServiceAccountToken, other.AutomountServiceAccountToken)
	sharePointer(&own.Priority, other.Priority)
	sharePointer(&own.PreemptionPolicy, other.PreemptionPolicy)
	shareString(&own.ServiceAccountName, other.ServiceAccountName)
	shareString(&own.DeprecatedServiceAccount, other.DeprecatedServiceAccount)
	shareString(&own.SchedulerName, other.SchedulerName)
	shareString(&own.RestartPolicy, other.RestartPolicy)
	shareString(&own.PriorityClassName, other.PriorityClassName)
	shareStatus(&pod.Status, &relative.Status)
}

func shareMeta(own, other *metav1.ObjectMeta) {
	shareString(&own.Namespace, other.Namespace)
	shareString(&own.GenerateName, other.GenerateName)
	shareMap(&own.Labels, other.Labels)
	shareMap(&own.Annotations, other.Annotations)
	shareSlice(&own.OwnerReferences, other.OwnerReferences, equalOwners)
	shareSlice(&own.Finalizers, other.Finalizers, equalValues)
}

func shareContainers(own *[]corev1.Container, other []corev1.Container) {
	same := len(*own) == len(other)
	for n := range (*own)[:min(len(*own), len(other))] {
		c, o := &(*own)[n], &other[n]
		shareString(&c.Name, o.Name)
		shareString(&c.Image, o.Image)
		shareResources(&c.Resources, &o.Resources)
		shareSlice(&c.Ports, o.Ports, equalValues)
		shareSlice(&c.ResizePolicy, o.ResizePolicy, equalValues)
		shareDeep(&c.SecurityContext, o.SecurityContext)
		shareSlice(&c.VolumeMounts, o.VolumeMounts, func(a, b corev1.VolumeMount) bool { return a.Name == b.Name })
		sharePointer(&c.RestartPolicy, o.RestartPolicy)
		same = same && identical(c, o)
	}
	if same {
		*own = other
	}
}

func shareResources(own, other *corev1.ResourceRequirements) {
	shareQuantities(&own.Limits, other.Limits)
	shareQuantities(&own.Requests, other.Requests)
}

func shareQuantities(own *corev1.ResourceList, other corev1.ResourceList) {
	same := len(*own) == len(other)
	for name, q := range *own {
		if !same {
			return
		}
		o, ok := other[name]
		same = ok && q.Format == o.Format && q.Cmp(o) == 0
	}
	if same {
		*own = other
	}
}

func shareVolumes(own *[]corev1.Volume, other []corev1.Volume) {
	for n := range (*own)[:min(len(*own), len(other))] {
		v, o := &(*own)[n], &other[n]
		shareString(&v.Name, o.Name)
		shareDeep(&v.Projected, o.Projected)
		shareDeep(&v.ConfigMap, o.ConfigMap)
		shareDeep(&v.Secret, o.Secret)
		shareDeep(&v.EmptyDir, o.EmptyDir)
		shareDeep(&v.HostPath, o.HostPath)
		shareDeep(&v.DownwardAPI, o.DownwardAPI)
		shareDeep(&v.PersistentVolumeClaim, o.PersistentVolumeClaim)
		shareDeep(&v.CSI, o.CSI)
	}
	shareSlice(own, other, equalValues)
}

func shareStatus(own, other *corev1.PodStatus) {
	shareString(&own.Phase, other.Phase)
	shareString(&own.QOSClass, other.QOSClass)
	for n := range own.PodIPs {
		shareString(&own.PodIPs[n].IP, own.PodIP)
	}
	shareSlice(&own.HostIPs, other.HostIPs, equalValues)
	for n := range own.Conditions[:min(len(own.Conditions), len(other.Conditions))] {
		c, o := &own.Conditions[n], &other.Conditions[n]
		shareString(&c.Type, o.Type)
		shareString(&c.Status, o.Status)
		shareString(&c.Reason, o.Reason)
		shareString(&c.Message, o.Message)
	}
	shareSlice(&own.Conditions, other.Conditions, equalConditions) // they say in which second
	sharePointer(&own.StartTime, other.StartTime)
	shareContainerStatuses(&own.InitContainerStatuses, other.InitContainerStatuses)
	shareContainerStatuses(&own.ContainerStatuses, other.ContainerStatuses)
}

func shareContainerStatuses(own *[]corev1.ContainerStatus, other []corev1.ContainerStatus) {
	same := len(*own) == len(other)
	for n := range (*own)[:min(len(*own), len(other))] {
		c, o := &(*own)[n], &other[n]
		shareString(&c.Name, o.Name)
		sharePointer(&c.Started, o.Started)
		shareQuantities(&c.AllocatedResources, o.AllocatedResources)
		if c.Resources != nil && o.Resources != nil {
			shareResources(c.Resources, o.Resources)
			if identical(c.Resources, o.Resources) {
				c.Resources = o.Resources
			}
		}
		shareDeep(&c.User, o.User)
		same = same && identical(c, o)
	}
	if same {
		*own = other
	}
}

// shareString has the two equal strings use the same bytes.
func shareString[T ~string](own *T, other T) {
	if *own == other {
		*own = other
	}
}

func shareMap(own *map[string]string, other map[string]string) {
	if len(*own) > 0 && maps.Equal(*own, other) {
		*own = other
	}
}

func shareSlice[T any](own *[]T, other []T, equal func(a, b T) bool) {
	if len(*own) > 0 && slices.EqualFunc(*own, other, equal) {
		*own = other
	}
}

func sharePointer[T comparable](own **T, other *T) {
	if *own != nil && other != nil && **own == *other {
		*own = other
	}
}

// shareDeep is for parts that few pods have; unless they are identical it compares them by
// reflection.
func shareDeep[T any](own **T, other *T) {
	if *own != nil && other != nil && (identical(*own, other) || equality.Semantic.DeepEqual(*own, other)) {
		*own = other
	}
}

// identical reports whether two values consist of the same bytes: they are equal, and share
// all that they refer to. It is false for equal values in different memory.
func identical[T any](a, b *T) bool {
	return bytesOf(a) == bytesOf(b)
}

func bytesOf[T any](value *T) string {
	return unsafe.String((*byte)(unsafe.Pointer(value)), unsafe.Sizeof(*value))
}

func equalValues[T comparable](a, b T) bool { return a == b }

func equalTolerations(a, b corev1.Toleration) bool {
	return a.Key == b.Key && a.Operator == b.Operator && a.Value == b.Value && a.Effect == b.Effect &&
		equalPointers(a.TolerationSeconds, b.TolerationSeconds)
}

func equalOwners(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion &&
		equalPointers(a.Controller, b.Controller) && equalPointers(a.BlockOwnerDeletion, b.BlockOwnerDeletion)
}

func equalConditions(a, b corev1.PodCondition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message &&
		a.ObservedGeneration == b.ObservedGeneration &&
		a.LastProbeTime.Equal(&b.LastProbeTime) && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

func equalPointers[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
