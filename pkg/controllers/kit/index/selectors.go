package index

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// One label pair of the selector, its anchor, leads from a Service to its pods and back,
// without a scan of the namespace:
//
//  1. A selector has at most one anchor: of its pairs with a shared key (see shared) the
//     one with the longest value, which tends to be the most specific one.
//  2. A Service is indexed once: under its anchor, or under its namespace if it has none.
//     A Service with a nil selector selects nothing and is not indexed.
//  3. A pod is indexed under each of its label pairs with a shared key.
//  4. An index returns candidates; the whole selector is matched afterwards.
const (
	servicesBySelector = "serviceSelector"
	podsByLabel        = "podLabel"
)

// Services finds Services by the pods they select.
type Services struct{ indexer cache.Indexer }

// NewServices adds the index to the Service informer if needed.
func NewServices(informer cache.SharedIndexInformer) Services {
	Ensure(informer, servicesBySelector, serviceKeys)
	return Services{informer.GetIndexer()}
}

// Selecting returns the Services of a namespace that select a pod with these labels. Its cost
// is proportional to the number of Services whose anchor the pod has.
func (s Services) Selecting(namespace string, pod labels.Set) ([]*corev1.Service, error) {
	candidates, err := Append[*corev1.Service](nil, s.indexer, servicesBySelector, append(labelKeys(namespace, pod), namespace)...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(candidates, func(service *corev1.Service) bool {
		return !labels.ValidatedSetSelector(service.Spec.Selector).Matches(pod)
	}), nil
}

// Select reports whether any of the Services selects a pod. Its cost is that of Selecting.
func (s Services) Select(pod *corev1.Pod) bool {
	selecting, err := s.Selecting(pod.Namespace, pod.Labels)
	return err != nil || len(selecting) > 0 // the error is reported by those who look for the Services
}

// SelectedPods finds pods by a selector that matches them.
type SelectedPods struct{ indexer cache.Indexer }

// NewSelectedPods adds the index to the pod informer if needed.
func NewSelectedPods(informer cache.SharedIndexInformer) SelectedPods {
	Ensure(informer, podsByLabel, podKeys)
	return SelectedPods{informer.GetIndexer()}
}

// By returns the pods of a namespace that a Service selector matches. An empty selector matches
// every pod, a nil one matches none.
func (p SelectedPods) By(namespace string, selector map[string]string) ([]*corev1.Pod, error) {
	if selector == nil {
		return nil, nil
	}
	name, key := cache.NamespaceIndex, namespace
	if label, ok := anchor(selector); ok {
		name, key = podsByLabel, pairKey(namespace, label, selector[label])
	}
	candidates, err := Append[*corev1.Pod](nil, p.indexer, name, key)
	if err != nil {
		return nil, err
	}
	matches := labels.ValidatedSetSelector(selector)
	return slices.DeleteFunc(candidates, func(pod *corev1.Pod) bool {
		return !matches.Matches(labels.Set(pod.Labels))
	}), nil
}

func serviceKeys(obj any) ([]string, error) {
	service, ok := obj.(*corev1.Service)
	if !ok || service.Spec.Selector == nil {
		return nil, nil
	}
	if label, ok := anchor(service.Spec.Selector); ok {
		return []string{pairKey(service.Namespace, label, service.Spec.Selector[label])}, nil
	}
	return []string{service.Namespace}, nil
}

func podKeys(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	return labelKeys(pod.Namespace, pod.Labels), nil
}

func labelKeys(namespace string, set labels.Set) []string {
	keys := make([]string, 0, len(set)+1)
	for label, value := range set {
		if shared(label) {
			keys = append(keys, pairKey(namespace, label, value))
		}
	}
	return keys
}

// pairKey returns a unique key: names of namespaces contain no slash, label keys contain no
// equals sign.
func pairKey(namespace, label, value string) string { return namespace + "/" + label + "=" + value }

// anchor returns the key of the pair that a selector is indexed by.
func anchor(selector map[string]string) (label string, ok bool) {
	for candidate, value := range selector {
		if !shared(candidate) {
			continue
		}
		best := len(selector[label])
		if !ok || len(value) > best || len(value) == best && candidate < label {
			label, ok = candidate, true
		}
	}
	return label, ok
}

// shared is false for labels whose values are specific to one revision, Job or index. Indexing
// pods by them costs a bucket for every few pods, and Services hardly ever select by them
// alone.
func shared(label string) bool {
	switch label {
	case appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey,
		"pod-template-generation", appsv1.PodIndexLabel,
		batchv1.JobNameLabel, batchv1.ControllerUidLabel, batchv1.JobCompletionIndexAnnotation,
		"job-name", "controller-uid":
		return false
	}
	return true
}
