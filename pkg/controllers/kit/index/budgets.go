package index

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// budgetsBySelector files PodDisruptionBudgets as servicesBySelector files Services. A
// budget whose label selector has no pair to serve as its anchor is filed under each value
// of an expression with In, if there is one with a shared key.
const budgetsBySelector = "budgetSelector"

// Budgets finds PodDisruptionBudgets by the pods they select.
type Budgets struct{ indexer cache.Indexer }

// NewBudgets adds the index to the PodDisruptionBudget informer if needed.
func NewBudgets(informer cache.SharedIndexInformer) (Budgets, error) {
	if err := Ensure(informer, budgetsBySelector, budgetKeys); err != nil {
		return Budgets{}, err
	}
	return Budgets{informer.GetIndexer()}, nil
}

// Candidates returns the budgets of a namespace that may select a pod with these labels,
// in no particular order: their whole selector remains to be matched. They include every
// budget that does.
func (b Budgets) Candidates(namespace string, pod labels.Set) ([]*policyv1.PodDisruptionBudget, error) {
	var candidates []*policyv1.PodDisruptionBudget
	var err error
	for _, key := range append(labelKeys(namespace, pod), namespace) {
		if candidates, err = appendFrom(candidates, b.indexer, budgetsBySelector, key); err != nil {
			return nil, err
		}
	}
	return candidates, nil
}

// ByLabelSelector returns the pods of a namespace that matches, the parsed form of
// selector, matches. An empty selector matches every pod, and a nil one none.
func (p SelectedPods) ByLabelSelector(namespace string, selector *metav1.LabelSelector, matches labels.Selector) ([]*corev1.Pod, error) {
	if selector == nil {
		return nil, nil
	}
	name, keys := podsByLabel, anchorKeys(namespace, selector)
	if len(keys) == 0 {
		name, keys = cache.NamespaceIndex, []string{namespace}
	}
	var candidates []*corev1.Pod
	var err error
	for _, key := range keys {
		if candidates, err = appendFrom(candidates, p.indexer, name, key); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(candidates, func(pod *corev1.Pod) bool {
		return !matches.Matches(labels.Set(pod.Labels))
	}), nil
}

func budgetKeys(obj any) ([]string, error) {
	budget, ok := obj.(*policyv1.PodDisruptionBudget)
	if !ok || budget.Spec.Selector == nil {
		return nil, nil
	}
	if keys := anchorKeys(budget.Namespace, budget.Spec.Selector); len(keys) > 0 {
		return keys, nil
	}
	return []string{budget.Namespace}, nil
}

// anchorKeys returns the keys of which any pod that the selector matches has just one;
// none if the selector has no anchor.
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
