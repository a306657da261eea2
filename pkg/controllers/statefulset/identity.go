package statefulset

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/pods"
)

// split splits the name of a pod into the name of its set and an ordinal. The ordinal is -1 if there is none or it is
// too large. The name is empty if the pod belongs to no set, because the digits are missing or are not a canonical
// number.
func split(pod string) (parent string, ordinal int) {
	dash := strings.LastIndexByte(pod, '-')
	if dash < 0 {
		return "", -1
	}
	digits := pod[dash+1:]
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return "", -1
	}
	if digits[0] == '0' && digits != "0" {
		return "", -1
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		return pod[:dash], -1
	}
	return pod[:dash], int(n)
}

func podName(set *appsv1.StatefulSet, ordinal int) string {
	return set.Name + "-" + strconv.Itoa(ordinal)
}

func ordinalOf(pod *corev1.Pod) int {
	_, ordinal := split(pod.Name)
	return ordinal
}

// isMember reports whether the name of a pod belongs to the set.
func isMember(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	parent, _ := split(pod.Name)
	return parent == set.Name
}

// firstOrdinal returns the first slot to be filled.
func firstOrdinal(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

// replicasOf returns the number of slots to be filled. The API server defaults it to 1.
func replicasOf(set *appsv1.StatefulSet) int { return int(ptr.Deref(set.Spec.Replicas, 1)) }

// lastOrdinal returns the last slot to be filled. It is at most the largest ordinal that the name
// of a pod can have, see split.
func lastOrdinal(set *appsv1.StatefulSet) int {
	return min(firstOrdinal(set)+replicasOf(set)-1, math.MaxInt32)
}

// inRange reports whether an ordinal is that of a slot to be filled.
func inRange(set *appsv1.StatefulSet, ordinal int) bool {
	return ordinal >= firstOrdinal(set) && ordinal <= lastOrdinal(set)
}

// missingPod returns the name and namespace of the pod of a slot. The pod itself, which can take much more memory, is
// built by newPod when it is created.
func missingPod(set *appsv1.StatefulSet, ordinal int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: podName(set, ordinal)}}
}

// newPod returns the pod of a slot, made from the template of the set.
func newPod(set *appsv1.StatefulSet, revision string, ordinal int) *corev1.Pod {
	pod := pods.FromTemplate(&set.Spec.Template, set, *metav1.NewControllerRef(set, setKind))
	pod.Name = podName(set, ordinal)
	pod.Namespace = set.Namespace
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, identityLabels(set, ordinal))
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = revision
	pod.Spec.Hostname = pod.Name
	pod.Spec.Subdomain = set.Spec.ServiceName
	pod.Spec.Volumes = volumes(set, ordinal, pod.Spec.Volumes)
	return pod
}

func identityLabels(set *appsv1.StatefulSet, ordinal int) map[string]string {
	return map[string]string{
		appsv1.StatefulSetPodNameLabel: podName(set, ordinal),
		appsv1.PodIndexLabel:           strconv.Itoa(ordinal),
	}
}

// volumes returns the volumes of a slot's claims, followed by those volumes of the template
// whose names differ from them.
func volumes(set *appsv1.StatefulSet, ordinal int, others []corev1.Volume) []corev1.Volume {
	all := claimVolumes(set, ordinal)
	for _, volume := range others {
		if !hasTemplate(set, volume.Name) {
			all = append(all, volume)
		}
	}
	return all
}

// hasTemplate reports whether a set has a claim template of the name.
func hasTemplate(set *appsv1.StatefulSet, name string) bool {
	return slices.ContainsFunc(set.Spec.VolumeClaimTemplates, func(t corev1.PersistentVolumeClaim) bool {
		return t.Name == name
	})
}

func claimVolumes(set *appsv1.StatefulSet, ordinal int) []corev1.Volume {
	var all []corev1.Volume
	for i := range set.Spec.VolumeClaimTemplates {
		template := &set.Spec.VolumeClaimTemplates[i]
		all = append(all, corev1.Volume{
			Name: template.Name,
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: claimName(set, template, ordinal),
			}},
		})
	}
	return all
}

// identityMatches reports whether a pod has the name and label of its slot.
func identityMatches(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	parent, ordinal := split(pod.Name)
	return ordinal >= 0 && parent == set.Name && pod.Namespace == set.Namespace &&
		pod.Labels[appsv1.StatefulSetPodNameLabel] == pod.Name
}

// storageMatches reports whether a pod mounts the claims of its slot.
func storageMatches(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	ordinal := ordinalOf(pod)
	if ordinal < 0 {
		return false
	}
	for i := range set.Spec.VolumeClaimTemplates {
		template := &set.Spec.VolumeClaimTemplates[i]
		want := claimName(set, template, ordinal)
		isClaim := func(v corev1.Volume) bool {
			return v.Name == template.Name && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == want
		}
		if !slices.ContainsFunc(pod.Spec.Volumes, isClaim) {
			return false
		}
	}
	return true
}

// revisionOf returns the name of the revision of a pod.
func revisionOf(pod *corev1.Pod) string { return pod.Labels[appsv1.ControllerRevisionHashLabelKey] }

// isCreated reports whether a pod exists, as opposed to one returned by newPod or missingPod.
func isCreated(pod *corev1.Pod) bool { return pod.Status.Phase != "" }

func isRunningAndReady(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && pods.IsReady(pod)
}
