package index

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// podsTrackedByJobs files the pods that have the finalizer of Jobs, under their namespace
// and under <namespace>/<uid> of the Job that their label names. Other pods are not filed.
const podsTrackedByJobs = "podJobTracking"

// TrackedPods finds pods that have the finalizer of Jobs.
type TrackedPods struct{ indexer cache.Indexer }

// NewTrackedPods adds the index to the pod informer if needed.
func NewTrackedPods(informer cache.SharedIndexInformer) (TrackedPods, error) {
	if err := Ensure(informer, podsTrackedByJobs, trackedPodKeys); err != nil {
		return TrackedPods{}, err
	}
	return TrackedPods{informer.GetIndexer()}, nil
}

// Matching returns the pods of a namespace that have the finalizer and match a selector.
// If the selector asks for the UID of a Job, as the one that the API server generates
// does, only the pods of that Job are looked at.
func (p TrackedPods) Matching(namespace string, selector labels.Selector) ([]*corev1.Pod, error) {
	key := namespace
	if uid, ok := selector.RequiresExactMatch(batchv1.ControllerUidLabel); ok {
		key += "/" + uid
	}
	candidates, err := appendFrom[*corev1.Pod](nil, p.indexer, podsTrackedByJobs, key)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(candidates, func(pod *corev1.Pod) bool {
		return !selector.Matches(labels.Set(pod.Labels))
	}), nil
}

func trackedPodKeys(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || !slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
		return nil, nil
	}
	keys := []string{pod.Namespace}
	if uid := pod.Labels[batchv1.ControllerUidLabel]; uid != "" {
		keys = append(keys, pod.Namespace+"/"+uid)
	}
	return keys, nil
}
