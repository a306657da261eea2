package horizontalpodautoscaler

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelpers "k8s.io/component-helpers/resource"

	"kcmd.dev/pkg/controllers/kit/pods"
)

// sample is the metric of one pod.
type sample struct {
	amount int64
	at     time.Time
	window time.Duration // of the measurement, ending at that time
}

// samples are the metrics of pods, by name.
type samples map[string]sample

// podGroups are the pods of a workload by the state of their samples.
type podGroups struct {
	ready   int      // have a reliable sample
	unready []string // their samples are not reliable yet
	missing []string // have no sample
	ignored []string // have failed or are being deleted
}

// startup is how long the CPU samples of a starting pod are unreliable.
type startup struct {
	initialization time.Duration // after its start, for as long as it is not ready
	readinessDelay time.Duration // after its start, changes of readiness are initial
}

// group groups pods by the state of their samples of a resource, which is empty for other
// metrics.
func group(all []*corev1.Pod, s samples, resource corev1.ResourceName, start startup, now time.Time) podGroups {
	var groups podGroups
	for _, pod := range all {
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed {
			groups.ignored = append(groups.ignored, pod.Name)
			continue
		}
		if pod.Status.Phase == corev1.PodPending {
			groups.unready = append(groups.unready, pod.Name)
			continue
		}
		sample, ok := s[pod.Name]
		switch {
		case !ok:
			groups.missing = append(groups.missing, pod.Name)
		case resource == corev1.ResourceCPU && start.distrusts(pod, sample, now):
			groups.unready = append(groups.unready, pod.Name)
		default:
			groups.ready++
		}
	}
	return groups
}

// distrusts reports whether a CPU sample may be from the start of the pod, which is no
// indication of its load.
func (s startup) distrusts(pod *corev1.Pod, sample sample, now time.Time) bool {
	ready := pods.ReadyCondition(pod)
	if ready == nil || pod.Status.StartTime == nil {
		return true
	}
	started, changed := pod.Status.StartTime.Time, ready.LastTransitionTime.Time
	notReady := ready.Status == corev1.ConditionFalse
	if now.Before(started.Add(s.initialization)) {
		return notReady || sample.at.Before(changed.Add(sample.window))
	}
	return notReady && changed.Before(started.Add(s.readinessDelay))
}

// counted returns the samples without those of ignored and unready pods.
func (g podGroups) counted(s samples) samples {
	kept := maps.Clone(s)
	for _, pod := range g.ignored {
		delete(kept, pod)
	}
	for _, pod := range g.unready {
		delete(kept, pod)
	}
	return kept
}

// requestsOf returns what each pod requests of a resource, or one container of each if it is
// named. It returns an error if any of the pods lacks the request.
func requestsOf(
	of []*corev1.Pod, resource corev1.ResourceName, container string, podLevel bool,
) (map[string]int64, error) {
	all := make(map[string]int64, len(of))
	for _, pod := range of {
		request, err := requestOf(pod, resource, container, podLevel)
		if err != nil {
			return nil, err
		}
		all[pod.Name] = request
	}
	return all, nil
}

func requestOf(pod *corev1.Pod, resource corev1.ResourceName, container string, podLevel bool) (int64, error) {
	if podLevel && container == "" && resourcehelpers.IsPodLevelRequestsSet(pod) {
		return wholeRequest(pod, resource)
	}
	var sum int64
	found := false
	for _, c := range runningContainers(pod) {
		if container != "" && c.Name != container {
			continue
		}
		request, ok := c.Resources.Requests[resource]
		if !ok {
			return 0, fmt.Errorf("missing request for %s in container %s of Pod %s", resource, c.Name, pod.Name)
		}
		sum = plus(sum, milli(request))
		found = true
	}
	if container != "" && !found {
		return 0, fmt.Errorf("container %s not found in Pod %s", container, pod.Name)
	}
	return sum, nil
}

// wholeRequest returns the request of a pod with pod-level resources, as the scheduler computes
// it: the pod-level request, or else the sum of those of its containers, some of which may have
// none, plus the overhead.
func wholeRequest(pod *corev1.Pod, resource corev1.ResourceName) (int64, error) {
	request, ok := resourcehelpers.PodRequests(pod, resourcehelpers.PodResourcesOptions{})[resource]
	if !ok {
		return 0, fmt.Errorf("missing pod-level request for %s in Pod %s", resource, pod.Name)
	}
	return milli(request), nil
}

// runningContainers are the containers that run for as long as the pod: the regular ones
// and the sidecars.
func runningContainers(pod *corev1.Pod) []*corev1.Container {
	var all []*corev1.Container
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			all = append(all, c)
		}
	}
	return all
}
