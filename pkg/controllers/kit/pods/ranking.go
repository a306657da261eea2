package pods

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Preference is the order in which surplus pods are deleted.
type Preference struct {
	// Rank is the number of active related pods on the node of a pod. Pods of a higher rank are
	// deleted first. Nil means that all ranks are 0.
	Rank func(*corev1.Pod) int
	// Now is the time at which ages are computed.
	Now time.Time
	// DeletionCost honours the annotation controller.kubernetes.io/pod-deletion-cost.
	DeletionCost bool
}

// Sort sorts the pods that should be deleted first to the front. The sort is not stable.
func (p Preference) Sort(pods []*corev1.Pod) {
	victims := make([]victim, len(pods))
	for i, pod := range pods {
		victims[i] = p.victim(pod)
	}
	slices.SortFunc(victims, p.compare)
	for i := range victims {
		pods[i] = victims[i].pod
	}
}

// victim is a pod with its sort keys, computed once per sort.
type victim struct {
	pod             *corev1.Pod
	assigned        bool
	phase           int
	ready           bool
	readySince      metav1.Time // zero if it is not ready
	cost            int32
	rank            int
	restarts        int32
	sidecarRestarts int32
}

func (p Preference) victim(pod *corev1.Pod) victim {
	v := victim{pod: pod, assigned: pod.Spec.NodeName != "", phase: phaseOrder(pod.Status.Phase)}
	if ready := ReadyCondition(pod); ready != nil && ready.Status == corev1.ConditionTrue {
		v.ready, v.readySince = true, ready.LastTransitionTime
	}
	if p.DeletionCost {
		v.cost = deletionCost(pod.Annotations)
	}
	if p.Rank != nil {
		v.rank = p.Rank(pod)
	}
	v.restarts, v.sidecarRestarts = maxRestarts(pod)
	return v
}

// compare returns a negative number if a is deleted before b. The first rule that distinguishes
// them decides.
func (p Preference) compare(a, b victim) int {
	if a.assigned != b.assigned {
		return first(!a.assigned)
	}
	if order := cmp.Compare(a.phase, b.phase); order != 0 {
		return order
	}
	if a.ready != b.ready {
		return first(!a.ready)
	}
	if order := cmp.Compare(a.cost, b.cost); order != 0 {
		return order
	}
	if order := cmp.Compare(b.rank, a.rank); order != 0 {
		return order
	}
	if !a.readySince.Equal(&b.readySince) {
		return p.compareReady(a, b)
	}
	if order := cmp.Compare(b.restarts, a.restarts); order != 0 {
		return order
	}
	if order := cmp.Compare(b.sidecarRestarts, a.sidecarRestarts); order != 0 {
		return order
	}
	if !a.pod.CreationTimestamp.Equal(&b.pod.CreationTimestamp) {
		return p.compareAges(a.pod, b.pod, a.pod.CreationTimestamp.Time, b.pod.CreationTimestamp.Time)
	}
	return 0
}

func (p Preference) compareReady(a, b victim) int {
	return p.compareAges(a.pod, b.pod, a.readySince.Time, b.readySince.Time)
}

// compareAges sorts the later time first; ages in the same logarithmic bucket are ordered by
// UID, so that deletions spread over ages. A zero time sorts first. The times differ.
func (p Preference) compareAges(a, b *corev1.Pod, atA, atB time.Time) int {
	if atA.IsZero() || atB.IsZero() || p.Now.IsZero() {
		if atA.IsZero() != atB.IsZero() {
			return first(atA.IsZero())
		}
		return first(atA.After(atB))
	}
	if order := cmp.Compare(ageBucket(p.Now.Sub(atA)), ageBucket(p.Now.Sub(atB))); order != 0 {
		return order
	}
	return cmp.Compare(a.UID, b.UID)
}

// ageBucket returns the binary logarithm of an age in nanoseconds, rounded down, or -1 if the
// age is not positive.
func ageBucket(age time.Duration) int {
	if age <= 0 {
		return -1
	}
	return bits.Len64(uint64(age)) - 1
}

// first returns the order of two pods that differ in a property: negative if the former has it.
func first(former bool) int {
	if former {
		return -1
	}
	return 1
}

// phaseOrder sorts Pending and every phase not listed here before Unknown, and that before
// Running.
func phaseOrder(phase corev1.PodPhase) int {
	switch phase {
	case corev1.PodUnknown:
		return 1
	case corev1.PodRunning:
		return 2
	}
	return 0
}

// deletionCost returns the value of the annotation. A value that is not a canonical decimal
// int32, without leading plus or zeros, counts as 0.
func deletionCost(annotations map[string]string) int32 {
	value := annotations[corev1.PodDeletionCost]
	if !plainDecimal(value) {
		return 0
	}
	cost, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return 0
	}
	return int32(cost)
}

func plainDecimal(s string) bool {
	if s == "0" {
		return true
	}
	return s != "" && (s[0] == '-' || s[0] >= '1' && s[0] <= '9')
}

// maxRestarts returns the highest restart count of the containers of a pod, and of its
// sidecars.
func maxRestarts(pod *corev1.Pod) (containers, sidecars int32) {
	for i := range pod.Status.ContainerStatuses {
		containers = max(containers, pod.Status.ContainerStatuses[i].RestartCount)
	}
	if len(pod.Status.InitContainerStatuses) == 0 {
		return containers, 0
	}
	names := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		policy := pod.Spec.InitContainers[i].RestartPolicy
		if policy != nil && *policy == corev1.ContainerRestartPolicyAlways {
			names[pod.Spec.InitContainers[i].Name] = true
		}
	}
	for i := range pod.Status.InitContainerStatuses {
		if names[pod.Status.InitContainerStatuses[i].Name] {
			sidecars = max(sidecars, pod.Status.InitContainerStatuses[i].RestartCount)
		}
	}
	return containers, sidecars
}
