package index

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// ByLabelSelector finds objects by the labels that their selector matches. They are indexed
// like Services in servicesBySelector; if no pair of the selector can be its anchor, the object
// is indexed under each value of an In expression with a shared key, if there is one.
type ByLabelSelector[T metav1.Object] struct {
	indexer cache.Indexer
	name    string
}

// NewByLabelSelector adds an index, under a name, to the informer if needed. An object whose
// selector is nil selects nothing and is not indexed.
func NewByLabelSelector[T metav1.Object](
	informer cache.SharedIndexInformer, name string, selector func(T) *metav1.LabelSelector,
) ByLabelSelector[T] {
	Ensure(informer, name, selectorKeys(selector))
	return ByLabelSelector[T]{informer.GetIndexer(), name}
}

// Candidates returns, in no particular order, a superset of the objects of a namespace that
// select these labels. The caller matches the whole selector.
func (b ByLabelSelector[T]) Candidates(namespace string, selected labels.Set) ([]T, error) {
	return Append[T](nil, b.indexer, b.name, append(labelKeys(namespace, selected), namespace)...)
}

// ByLabelSelector returns the pods of a namespace that matches, the parsed form of
// selector, matches. An empty selector matches every pod, and a nil one none.
func (p SelectedPods) ByLabelSelector(
	namespace string, selector *metav1.LabelSelector, matches labels.Selector,
) ([]*corev1.Pod, error) {
	if selector == nil {
		return nil, nil
	}
	name, keys := podsByLabel, anchorKeys(namespace, selector)
	if len(keys) == 0 {
		name, keys = cache.NamespaceIndex, []string{namespace}
	}
	candidates, err := Append[*corev1.Pod](nil, p.indexer, name, keys...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(candidates, func(pod *corev1.Pod) bool {
		return !matches.Matches(labels.Set(pod.Labels))
	}), nil
}

func selectorKeys[T metav1.Object](selector func(T) *metav1.LabelSelector) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		object, ok := obj.(T)
		if !ok || selector(object) == nil {
			return nil, nil
		}
		if keys := anchorKeys(object.GetNamespace(), selector(object)); len(keys) > 0 {
			return keys, nil
		}
		return []string{object.GetNamespace()}, nil
	}
}

// anchorKeys returns index keys of which every pod that the selector matches has exactly one,
// or none if the selector has no anchor.
func anchorKeys(namespace string, selector *metav1.LabelSelector) []string {
	if label, ok := anchor(selector.MatchLabels); ok {
		return []string{pairKey(namespace, label, selector.MatchLabels[label])}
	}
	for _, e := range selector.MatchExpressions {
		if e.Operator != metav1.LabelSelectorOpIn || !shared(e.Key) {
			continue
		}
		var keys []string
		for _, value := range e.Values {
			keys = append(keys, pairKey(namespace, e.Key, value))
		}
		slices.Sort(keys)
		return slices.Compact(keys)
	}
	return nil
}
