package job

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/index"
)

// podsTrackedByJobs indexes the pods that have the finalizer of Jobs, by namespace and by
// <namespace>/<uid> of the Job in their label. Other pods are not indexed.
const podsTrackedByJobs = "podJobTracking"

// trackedPods finds pods that have the finalizer of Jobs.
type trackedPods struct{ indexer cache.Indexer }

// newTrackedPods adds the index to the pod informer if needed.
func newTrackedPods(informer cache.SharedIndexInformer) trackedPods {
	index.Ensure(informer, podsTrackedByJobs, trackedPodKeys)
	return trackedPods{informer.GetIndexer()}
}

// matching returns the pods of a namespace that have the finalizer and match a selector. If the
// selector requires the UID of a Job, as the generated one does, only the pods of that Job are
// examined.
func (p trackedPods) matching(namespace string, selector labels.Selector) ([]*corev1.Pod, error) {
	key := namespace
	if uid, ok := selector.RequiresExactMatch(batchv1.ControllerUidLabel); ok {
		key += "/" + uid
	}
	candidates, err := index.Append[*corev1.Pod](nil, p.indexer, podsTrackedByJobs, key)
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
